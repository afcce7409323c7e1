"""The pipeline: eight stages from a channel's message to the answer on its way back."""
