"""Packs runs for other people, with a model card, and brings them to the Hugging Face hub and back."""
