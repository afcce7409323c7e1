"""Charts: bars of an instrument as data, as words with a sparkline, and as a picture."""
