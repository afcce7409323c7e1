"""Numerals as people and models write them, in English and Korean: one reader for all that meet them, one writer."""
