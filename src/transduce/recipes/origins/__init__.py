"""Where recipes get their data: one file for each origin, or for a few of one kind."""
