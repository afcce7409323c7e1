"""The way back: one gate for what a person will see, splitting, and the ordered sender."""
