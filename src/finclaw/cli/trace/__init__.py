"""A turn of the past: found in the store, drawn as a tree, compared with its replay."""
