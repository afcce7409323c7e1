"""Checks of live sources: questions whose answers are known well enough to see that one is wrong, and their report."""
