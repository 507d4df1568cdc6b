"""What every other layer stands on: errors, sites, events, tree walks. NumPy at most."""
