"""Commands and directives: the registry, what they declare beyond their port, and what is said about them."""
