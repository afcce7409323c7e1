"""The chat at a terminal, and what `finclaw ask` shares with it: the link to a gateway, and the screen."""
