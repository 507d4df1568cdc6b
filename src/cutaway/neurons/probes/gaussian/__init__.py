"""The Gaussian probe (Torroba Hennigen et al., 2020).

greedy  The units that together tell most of the classes, one after the other: all candidates of a round at once,
        exactly
nested  Gaussians of some units, one a class, such that the first d of the units are a model too: what the probe
        knows
probe   A Gaussian probe: how many bits a few units tell of the classes, and which few tell most
"""
