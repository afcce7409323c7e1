"""Settings: read once at start, checked whole, handed down as values."""
