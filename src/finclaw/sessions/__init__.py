"""Sessions: the messages of a conversation, and the order of its turns."""
