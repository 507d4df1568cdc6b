"""Probes: scikit-learn estimators that predict labels from units and rank the units.

base       Input validation shared by both probes: rows, labels, held-out rows
gaussian/  The Gaussian probe (Torroba Hennigen et al., 2020)
linear/    The linear probe with an elastic-net penalty
save       Saves a fitted probe to one safetensors file, with parameters as JSON in the header
"""
