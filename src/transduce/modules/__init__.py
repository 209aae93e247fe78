"""Building blocks of models. Each is a small class; a variant is another small class with the same methods."""
