"""Whose conversation it is: its messages, and the order of its turns."""
