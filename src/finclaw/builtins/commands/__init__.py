"""The commands by which people look at a conversation and change how it is answered."""
