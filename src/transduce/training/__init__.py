"""Training: one loop for every model that learns by gradients, and passes for counted models."""
