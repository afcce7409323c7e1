"""The demo: an assistant and a market that need neither a key nor a network."""
