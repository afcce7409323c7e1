"""Upkeep of a state as a whole: erasure of sessions and persons, and copies for a backup."""
