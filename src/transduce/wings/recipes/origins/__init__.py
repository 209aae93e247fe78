"""Origins: where recipes get their data."""
