"""Traces on disk.

arguments   Encodes call arguments as text: plain data as is, tensors as placeholders, other objects by repr
columns     A trace as named arrays (columns), with each text stored once
decode      Decodes a trace from columns; validates every number, so that nothing fails or loops later
encode      Encodes everything but the values of a trace as columns
origin      The origin of a saved trace: the run and step in which it was made
trace_file  Saves a trace to an archive, and reads it back without torch
values      Writes values and gradients of a trace in blocks; reads each one on access
"""
