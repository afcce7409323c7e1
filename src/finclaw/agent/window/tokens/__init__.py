"""Token estimates: how many tokens a text or a message takes, without the model's own tokenizer."""
