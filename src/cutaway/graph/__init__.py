"""A computation as a graph: ops, module calls, names, questions. Plain data, no torch."""
