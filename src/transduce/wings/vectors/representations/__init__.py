"""What trained runs say about words and sentences: their vectors, and how to measure those."""
