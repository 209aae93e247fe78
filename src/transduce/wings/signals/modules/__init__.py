"""Embeddings of signals: sound, pictures and clips, as rows of numbers [B, S, D], become vectors for any encoder."""
