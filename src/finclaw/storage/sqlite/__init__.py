"""The default store: one SQLite database, one writer thread, commits shared by all who wait."""
