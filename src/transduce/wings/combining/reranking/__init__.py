"""Reranks the outputs of a search with other models or a metric. It works on text, so vocabularies may differ."""
