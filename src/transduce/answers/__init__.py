"""Requests and answers: what a user asks of a model, how the model is asked, and what comes back."""
