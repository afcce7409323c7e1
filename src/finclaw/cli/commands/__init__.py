"""The commands: one module each, with its arguments and what it does; `parser.py` lists them."""
