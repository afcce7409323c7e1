"""The fetch port, implemented: outbound requests to addresses that a person, a model or a page has named."""
