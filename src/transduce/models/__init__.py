"""Models: what a search, an objective and an inspector hold, and never look into."""
