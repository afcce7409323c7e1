"""Stores: implementations of the store ports, in SQLite and in plain files."""
