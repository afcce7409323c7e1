"""Instrument records apart from prices: the shipped catalogue, its look-up, and the symbols of vendors."""
