"""What every model API behind HTTP and server-sent events has in common: the line, the events, the failures."""
