"""The system prompt, from sections: the same bytes for the same settings, so that a model's cache can keep them."""
