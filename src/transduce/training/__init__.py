"""Training: one loop for every model."""
