"""Conditionals and loops of a traced program: which tensors decided which branch, found in the bytecode.

branches      Tests and their arms as they stand in the source: `if`, `while`, `assert`, ternaries, filters,
              guards
bytecode      Which jumps of a code object are decided by a value that an instruction made
conditionals  Tensors that decided which way a program went: `if`, `while`, `assert`, ternaries, filters
decisions     From the values that left torch to the tests they decided, in order of execution
outcomes      The tests of a trace and the arms in which its ops ran, worked out from the code that was run
source        Where in the code something ran, worked out from a code object when somebody asks
stack         What one instruction does to the stack and the local variables, as far as followed values are
              concerned
stored_code   What stands in the place of a code object in a trace that was read from disk, and when two pieces of
              code are one
symbolic      How a plain number or truth value came from the values that left torch
"""
