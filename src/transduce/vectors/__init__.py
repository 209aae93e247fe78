"""Word vectors: files of them, how to train them, and measures of them. V words, D features."""
