"""The model's context window: what fits, how large a conversation is, and its compaction."""
