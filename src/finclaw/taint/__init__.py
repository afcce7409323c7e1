"""Taint: who wrote a text, which sources a conversation has read, and which addresses a person has named."""
