"""Training: one loop for all models that learn by gradients, and passes for counted models."""
