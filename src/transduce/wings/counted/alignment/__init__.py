"""Word alignment: models of which source word each target word of a sentence pair comes from."""
