"""The server: trained runs behind HTTP, and the studio, a page for the browser."""
