"""The state of a running turn: its log on disk, what only the core may touch, its side calls and its stream."""
