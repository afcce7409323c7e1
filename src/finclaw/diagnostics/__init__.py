"""Diagnostics of a running process: logs, the stream of events, and crash points."""
