"""Embeddings of signals: sound, pictures and clips, rows of numbers [B, S, D], as vectors for any encoder."""
