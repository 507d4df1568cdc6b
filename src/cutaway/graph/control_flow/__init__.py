"""Finds the conditionals that tensors decided, from the bytecode of the traced program.

branches      Tests and their branches (arms) in the syntax tree: `if`, `while`, `assert`, ternaries, filters, guards
bytecode      Data-flow analysis of a code object: the jumps that a value decides
conditionals  `Conditional`: a test that a tensor decided; `Conditionals`: all of a trace
decisions     The tests that values from torch decided, in order of execution
outcomes      The tests of a trace, and the branches in which its ops ran
source        Source lines of instructions, and stacks of events
stack         Effect of one instruction on the abstract stack and local variables
stored_code   Placeholder for a code object in a trace loaded from disk; fingerprints of code
symbolic      Symbolic expressions over the values that left torch
"""
