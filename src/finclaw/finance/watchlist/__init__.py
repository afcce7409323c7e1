"""Watchlists: the instruments that a person follows, quoted together, screened by simple conditions."""
