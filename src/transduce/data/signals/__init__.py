"""Sources that are numbers and not text: sound, pictures, clips, each in a file of its own, named by its path."""
