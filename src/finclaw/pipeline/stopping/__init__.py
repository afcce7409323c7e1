"""Ends of messages before their answer: by a person, or because nothing moves any more."""
