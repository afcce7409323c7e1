"""The agent of stage 7: a turn of steps, each one model call and the tool calls it asked for."""
