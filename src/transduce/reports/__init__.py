"""Pages for the browser: each one file of HTML, with nothing to be fetched and no scripts."""
