"""The linear probe with an elastic-net penalty.

losses        Objective of a linear probe: mean loss plus elastic-net penalty
minibatch     Minibatch training: proximal Adam for data larger than memory, and NeuroX's training
probe         `Linear`: predicts labels from units and ranks units by weight
rows          Training rows on the compute device, standardized, whole or in batches
solver        OWL-QN solver for rows that fit in memory
weight_order  Orders units by their share of the weight mass of a linear probe
"""
