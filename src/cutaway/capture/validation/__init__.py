"""`trace.validate()`: proves a trace by replaying it with perturbed inputs.

compare   Bitwise equality of two values, and their largest relative difference
distance  Distance between two values of any dtype, device and layout
perturb   Perturbed values for an argument, to test whether a function depends on it
validate  `trace.validate()`: proves that a trace shows what the model computed
"""
