"""Upkeep of a whole state: erasure, retention and copies."""
