"""The kernel: types, ports, events and `compose`. Nothing here opens a file, a socket or a database."""
