"""Pictures as plain data, and their static drawings. No torch."""
