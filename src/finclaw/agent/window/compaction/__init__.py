"""Compaction of long conversations: four strategies, a fallback that needs no model, and nothing important lost."""
