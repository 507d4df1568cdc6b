"""Recording training runs: when to look, what to measure, what to write."""
