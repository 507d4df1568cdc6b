"""`trace.validate()`: proves a trace by replaying it with perturbed inputs.

compare   Whether two values are the same, bit for bit, and if not, how far they are apart
distance  How far two values are apart, whatever their dtype, device and layout
perturb   Other values for an argument, to see whether a function feels the difference
validate  `trace.validate()`: prove that a trace holds what happened
"""
