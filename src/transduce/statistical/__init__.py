"""Models that are counted rather than learned by gradient."""
