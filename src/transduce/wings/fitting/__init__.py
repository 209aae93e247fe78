"""A model chosen for a user's data: what the data are, which models may fit them, and which of them does."""
