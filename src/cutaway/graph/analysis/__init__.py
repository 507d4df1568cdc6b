"""Analyses of a trace: units, recurrence, paths, costs, consistency. Plain data, no torch.

components          The components of a model that you can collect: modules, ops and inputs with their shapes
consistency         Checks a graph for contradictions: order, passes, module calls, distances
cost_summary        Time, FLOPs and bytes by function, module or any other group
distances           Distances of each op from inputs and outputs; orphans
equivalence         Equivalence classes of function calls, among which recurrence looks for passes of one op
export              Exports a trace as a table and as a networkx graph
flops               Counts floating-point operations from the shapes of arguments
nonfinite           Finds where NaN or Inf first appears in a trace
passes              `Passes`: all passes of one op; `Rolled`: the ops of a trace, rolled up
paths               Paths between ops, and the critical path of a trace
reachability        Ancestors, descendants and heaviest chains of rows
recurrence          Finds the passes of one op by three rules
repeats             Finds tandem repeats in a list of numbers
saved_for_backward  The tensors that autograd saves for a backward pass
summary             The `repr` of a trace: a summary on one screen
units               Derives which dimensions of every value count units, samples and positions
"""
