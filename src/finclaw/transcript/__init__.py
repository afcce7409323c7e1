"""The messages of a conversation as data: pages, pairing of tool calls with results, repair, export and fold."""
