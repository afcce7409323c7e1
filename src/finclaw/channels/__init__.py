"""The front door and the last: where people write, and where they read."""
