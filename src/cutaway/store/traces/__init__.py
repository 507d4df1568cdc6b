"""Traces on disk.

arguments   The arguments of calls as text: plain data as it is, tensors by a mark, everything else by what it
            looked like
columns     Columns: the rows of a trace as named arrays, with every text written once
decode      From columns of unknown origin to a trace: every number is checked, so that nothing fails or loops
            later
encode      From a trace to plain columns: everything that is known of it but its values
trace_file  A trace on disk: `trace.save(path)`, and what `cutaway.load(path)` makes of it without torch
values      The values and gradients of a trace: written a part at a time, read back one by one when somebody asks
"""
