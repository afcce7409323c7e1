"""Crash recovery: what a start does with messages that an earlier process left unfinished."""
