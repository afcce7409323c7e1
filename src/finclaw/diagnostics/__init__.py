"""What operators and observers see of a running process: logs, and the stream of events."""
