"""What a command shows on the terminal while it works."""
