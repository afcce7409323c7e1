"""Which agent answers, and whose conversation a message belongs to, from the envelope alone."""
