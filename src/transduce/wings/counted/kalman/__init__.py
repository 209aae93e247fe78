"""Linear-Gaussian state-space models: filter, smoother and the estimation of their parameters."""
