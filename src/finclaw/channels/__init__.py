"""Channels: where people write, and where they read."""
