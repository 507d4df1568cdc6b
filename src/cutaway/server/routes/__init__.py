"""HTTP routes, one file per kind of archive.

pages    Routes of activations and saved results: the page of each, and of one unit
runs     Routes of runs: the list, one run, its graph and modules, one step, curves
spikes   Routes from a spike to its cause: spikes of a curve, what changed at a step, filters on steps and samples
tensors  Routes of one tensor at one step: its view, values, units, samples
traces   Routes of saved traces: the graph of ops, details of one op
"""
