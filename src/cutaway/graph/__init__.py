"""The computation graph: trace, ops, modules and names. Plain data, no torch.

analysis/      Analyses of a trace: units, recurrence, paths, costs, consistency
argument_text  Deterministic text for the arguments of a call
control_flow/  Finds the conditionals that tensors decided, from the bytecode of the traced program
dependencies/  The dependency graph of recorded tensors, contracted from a trace
diff/          Compares two traces: aligns their ops, matches modules and parameters, lists changes
labels         Labels, sites, ordinals and passes of ops
lookup         Looks up ops by site, pattern or label
modules        Modules and their calls
op             One op of a trace: a lightweight view of a row of its columns
replays        The methods of a trace that compute what it would be with an edit
selection      Selections of ops that can be filtered, extended and combined
stored_facts   Analysis results that are saved with a trace, because its code objects are not
tables         The columns behind a trace
trace          `Trace`: one run of a model
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
