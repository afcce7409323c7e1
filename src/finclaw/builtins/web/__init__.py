"""Web fetching: the one way to an address that a person, a model or a page has named, and the tool that uses it."""
