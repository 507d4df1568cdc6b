"""Compares two traces: aligns their ops, matches modules and parameters, lists changes.

align      Aligns the ops of two traces
match      Matches sources, modules and parameters of two traces with aligned ops
sequences  Sequence alignment: longest common subsequence and heaviest matching
structure  Lists what is new, removed, changed or moved between two aligned traces
"""
