"""Conversations as plain files that a person can open: one line a record, each with its own checksum."""
