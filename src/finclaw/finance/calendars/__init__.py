"""Calendars as data: `sessions.json`, which a script writes from public sources, and what is read from it."""
