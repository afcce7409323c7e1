"""Delivery: the last filter of what a person will see, splitting, and the ordered sender."""
