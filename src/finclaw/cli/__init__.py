"""The command line. Nothing is imported here: a command loads only what it runs."""
