"""Our own extensions. They use the same door as anybody's."""
