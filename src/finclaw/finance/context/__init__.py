"""The market in the context of a turn: what is computed for everybody, and what is asked for where it matters."""
