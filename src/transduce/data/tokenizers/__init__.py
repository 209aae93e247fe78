"""Tokenizers: raw text, labels and numbers to ids or rows, and back."""
