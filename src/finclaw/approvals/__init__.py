"""A person's consent to one exact action: who may give it, what they are shown, and that it counts once."""
