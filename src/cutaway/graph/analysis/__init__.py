"""Questions about a trace: units, recurrence, paths, costs, consistency. Plain data, no torch.

components          What of a model can be collected: every module and op with the shape of what it gives, also as
                    JSON
consistency         Whether a graph agrees with itself: orders, passes, module stacks, distances
cost_summary        Where the time, the FLOPs and the bytes of a trace go
distances           How far each op lies from the inputs and from the outputs, and which ops hang in the air
equivalence         Which calls of functions are alike: the classes in which recurrence looks for passes of one op
export              A trace as a table and as a networkx graph
flops               Floating-point operations of an op, from the shapes of its arguments
passes              One op that ran several times, and the ops of a trace with such ones rolled up
paths               The paths from some ops to others, and the critical path of a trace
reachability        Which rows lead to which, and by which chain
recurrence          Which ops are passes of one op: the three rules of recurrence
repeats             Sequences that repeat back to back, in a list of numbers
saved_for_backward  What autograd keeps alive for a backward pass, as plain data
summary             A trace on one screen
units               The walk over a traced graph that tells what the dimensions of every value count
"""
