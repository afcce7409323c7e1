"""Upkeep of a whole state: erasure and retention."""
