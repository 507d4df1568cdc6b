"""The dependency graph of recorded tensors, contracted from a trace.

contract  Contracts a trace to chosen rows: which lead to which, and where gradients can flow
graph     The dependency graph: recorded tensors as nodes, linked where one was computed from another
locate    Finds the rows of a trace for the sites of recorded tensors
"""
