"""Corpora, tokenizers, preparation and batching: the way from raw text to batches."""
