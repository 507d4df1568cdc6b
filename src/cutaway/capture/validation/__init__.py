"""`trace.validate()`: proves a trace by replaying it with perturbed inputs.

compare     Bitwise equality of two values, and their largest relative difference
distance    Distance between two values of any dtype, device and layout
op_check    Checks each op: replays it on the saved values of its parents, and perturbs each of them
perturb     Perturbed values for an argument, to test whether a function depends on it
second_run  Runs the model again, plainly or traced, and compares
slices      Smaller arguments for functions that compute each part of their result from a part of these
together    Runs a model that several processes run together once more: all agree first
validate    `trace.validate()`: proves that a trace shows what the model computed
"""
