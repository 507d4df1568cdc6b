"""Probes: estimators in the manner of scikit-learn that predict labels from units.

base       What both probes ask of what they are given: rows, labels, a part of the rows held out
gaussian/  The Gaussian probe (Torroba Hennigen et al., 2020)
linear/    The linear probe with an elastic-net penalty
save       A fitted probe as one safetensors file: its arrays, and the rest as JSON in the header
"""
