"""A computation as a graph: trace, ops, modules, names. Plain data, no torch.

analysis/      Questions about a trace: units, recurrence, paths, costs, consistency. Plain data, no torch
argument_text  The arguments of a call in words, the same in every run of the same program
control_flow/  Conditionals and loops of a traced program: which tensors decided which branch, found in the
               bytecode
dependencies/  The dependency graph of recorded tensors, contracted from a trace
diff/          Compares two traces: aligns their ops, matches modules and parameters, lists what changed
labels         Names of ops: ordinals, passes, sites, labels
lookup         From a name to the ops it means
modules        Modules and their calls, as a trace saw them
op             One operation of a trace: a light view on a row of its columns
selection      Selections: the answer to a question about a trace, and the start of the next one
stored_facts   What a trace that was read from disk knows without working it out: the code behind it is not stored
tables         The columns behind a trace
trace          A trace: everything that is known of one run of a model
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
