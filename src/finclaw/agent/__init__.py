"""Stage 7 from inside: a turn of steps, each one model call and the tool calls it asked for."""
