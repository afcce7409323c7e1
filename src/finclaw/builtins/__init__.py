"""Built-in extensions. They use the same API as any other."""
