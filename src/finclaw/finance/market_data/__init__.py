"""Market data: the port, the checks before a figure is believed, chains of sources, and the sources themselves."""
