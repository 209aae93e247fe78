"""Building blocks: each a small class, a variant another small class of the same shape."""
