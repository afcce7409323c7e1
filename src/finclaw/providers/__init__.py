"""Models behind one port: each turns a request into a stream of chunks."""
