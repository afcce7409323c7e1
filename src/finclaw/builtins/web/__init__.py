"""The one way to fetch an address that a person, a model or a page has named, and the tool that stands on it."""
