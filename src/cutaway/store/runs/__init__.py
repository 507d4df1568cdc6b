"""Recorded runs, read back.

run            A recorded run, read lazily and without torch, also while it is being written
run_set        Several runs as one mapping, for comparisons
samples        The samples of a step: ids, texts, tokens, labels, images
scalars        Scalars logged during a run, as curves
series         One recorded tensor over the steps of a run
step           One recorded step of a run, and one tensor at that step
step_facts     How a step was trained: learning rates, modes, micro-batches, clipping
timeline       All recorded steps of a rank in order, over its sessions
xarray_export  Statistics as xarray datasets
"""
