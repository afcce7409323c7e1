"""What lasts: implementations of the store ports."""
