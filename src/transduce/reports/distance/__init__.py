"""Edit distance to be looked at: its table and alignments on a terminal, as a drawing, as a page."""
