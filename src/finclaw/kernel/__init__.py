"""The nouns and the one mechanism. Nothing here opens a file, a socket or a database."""
