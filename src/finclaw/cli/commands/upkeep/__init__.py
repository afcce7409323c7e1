"""Commands that keep the state as a whole: copies of it, and what is removed from it."""
