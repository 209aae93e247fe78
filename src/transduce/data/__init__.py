"""From raw text to batches: corpora, tokenizers, preparation, batching, and where recipes get their data."""
