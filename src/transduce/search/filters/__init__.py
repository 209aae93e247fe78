"""Filters forbid or penalise next tokens. ``search.base.Filter`` is their contract."""
