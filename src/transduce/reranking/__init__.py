"""Choosing among the outputs of a search by what it could not see: as text, so that vocabularies may differ."""
