"""What a search may write next, and at what price: filters, a noun a file."""
