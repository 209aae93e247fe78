"""From raw text to batches: corpora, tokenizers, preparation and batching."""
