"""Blobs: files named by their SHA-256, with a row each in the database and a row for each use."""
