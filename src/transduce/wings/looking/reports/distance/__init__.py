"""Pictures of an edit-distance table and its alignments: on a terminal, as a drawing, as a page."""
