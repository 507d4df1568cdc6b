"""Neuron factors: activations factorized by NMF, PCA or clustering.

factorize  Activations taken apart into few factors: by NMF, by PCA, or as clusters of units
factors    The neurons of a model while it wrote, as a few factors: of one text or several, of all layers or some
"""
