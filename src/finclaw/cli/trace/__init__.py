"""Traces of turns of the past, drawn as a tree."""
