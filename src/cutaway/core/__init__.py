"""Shared foundations: errors, sites, units, statistics, formatting. Needs only NumPy.

arrays       Tensors as raw bytes: the memory layout of every torch dtype, decoded with NumPy only
call_errors  Explains a call with too many or too few arguments better than Python's own `TypeError` does
current_step The step of a recording that the program is in, so that a trace made there knows its run and step
dataframes   Converts rows to a pandas DataFrame if pandas is installed
errors       All exceptions that Cutaway raises, as one class tree
events       Plain records of what capture sees, and the protocols (`Sink`, `ValueSink`) that receive them
formatting   Formats numbers, counts, lists and near matches for sentences, tables and labels
io           Atomic file writes: write to a temporary file, then rename
late         Late binding of methods whose code is in a higher layer, and lazy package facades
matrices     Activations as a matrix of rows × units, read block by block from NumPy, torch or disk
positions    Checks the position in `sequence[position]`, with errors that say what the sequence holds
progress     Progress bar on stderr, shown only on a terminal and only for work longer than two seconds
pytree       Walks the nested containers that models take and return, in a fixed order
safetensors  Reads and writes safetensors headers, with limits that protect against malicious files
sites        The grammar of sites: the names of tensors inside a model
statistics   Table of the recorded statistics: name, title, scale and how each one is compared
units/       Which dimensions of a value are units, samples and positions, decided from the graph of the model
unusual      The one criterion of "unusual", and what a tensor holds: numbers, zeros, NaN, Inf, a mask
version      The version of the package
zscores      Robust z-scores: distance from the median in units of the median absolute deviation (MAD)
"""
