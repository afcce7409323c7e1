"""The HTTP door. Nothing is imported here: whoever only needs the channel or a view does not pay for a server."""
