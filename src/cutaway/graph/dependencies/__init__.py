"""The dependency graph of recorded tensors, contracted from a trace.

contract  Contraction: which of some chosen rows of a trace lead to which, over all the others, and where
          gradients can flow
graph     The dependency graph: recorded tensors as nodes, and a link wherever one was computed from another
locate    From the sites of recorded tensors to the rows of a trace
"""
