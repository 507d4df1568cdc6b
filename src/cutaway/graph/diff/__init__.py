"""Compares two traces: aligns their ops, matches modules and parameters, lists what changed.

align      Which ops of one trace are which ops of another
match      Which sources, modules and parameters of one trace are which of another, once its ops are known
sequences  How two sequences of numbers are best matched, in order: by length, or by weight
structure  What is new, gone, changed or moved between two aligned traces
"""
