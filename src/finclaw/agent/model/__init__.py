"""Model calls: one question, its retries over keys and models, and the answer collected from a stream."""
