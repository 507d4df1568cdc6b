"""Neuron factors: activations factorized by NMF, PCA or clustering.

factorize  Factorizes activations by NMF, PCA or k-means clustering of units
factors    `gen.factors()`: factorizes the activations of neurons over one text or several
"""
