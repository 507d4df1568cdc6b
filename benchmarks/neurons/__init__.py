"""Cost of collecting activations, ranking units and fitting probes.

collection  Words a second of `collect` beside a plain loop
gpu         `collect` on a GPU; a script of its own
probes      Linear and Gaussian probes beside NeuroX
rankings    Time and memory of `rank`, also beside scikit-learn
"""
