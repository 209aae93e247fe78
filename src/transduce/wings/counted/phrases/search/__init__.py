"""Searches for models that write an output phrase by phrase."""
