"""Looking inside a model from outside: taps are hooked, no model knows of it."""
