"""Models that are counted instead of trained by gradients."""
