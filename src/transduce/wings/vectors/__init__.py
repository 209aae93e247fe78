"""Word vectors: their files, their training, and measures of their quality and bias. V words, D features."""
