"""What analyses return: frozen, plain, independent of what they were made from."""
