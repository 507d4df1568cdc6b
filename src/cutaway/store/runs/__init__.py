"""Recorded runs, read back.

filtered       The steps and samples of a run that pass some filters
filters        The grammar of filters on steps and samples: `loss > 2`, `kind = train`, `token = cat`
run            A recorded run, read lazily and without torch, also while it is being written
run_set        Several runs as one mapping, for comparisons
samples        The samples of a step: ids, texts, tokens, labels, images
scalars        Scalars logged during a run, as curves
series         One recorded tensor over the steps of a run
spikes         Spikes of a curve: steps whose value is far from those of the steps before
step           One recorded step of a run, and one tensor at that step
step_facts     How a step was trained: learning rates, modes, micro-batches, clipping
timeline       All recorded steps of a rank in order, over its sessions
xarray_export  Statistics as xarray datasets
"""
