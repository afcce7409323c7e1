"""The composition root: the one place where all parts of a gateway are made and connected."""
