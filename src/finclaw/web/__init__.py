"""The HTTP server and its API. Nothing is imported here: a user of a view alone does not pay for a server."""
