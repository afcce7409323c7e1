"""Exceptions from the caps of `test_sizes.py`. The lists only shrink: `python -m tests.house.sizes`."""

LONG_MODULES: frozenset[str] = frozenset()
FULL_DIRECTORIES: frozenset[str] = frozenset()
