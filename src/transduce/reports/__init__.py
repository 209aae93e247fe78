"""What was found, to be looked at: pages for the browser, drawings, tables for the terminal."""
