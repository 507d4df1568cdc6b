"""What was seen, on disk: the folder format, its writer, its readers."""
