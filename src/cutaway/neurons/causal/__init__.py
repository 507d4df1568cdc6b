"""Causal tests in the live model: ablation and attribution.

ablate       Causal ablation: what a running model loses without the units that a ranking puts first, beside
             random ones
attribute    Attribution: how much each unit has to do with the model's own output, by gradients
attribution  The numbers behind attributions: gradients at the values of sites, batch by batch, in a model that
             stays as it is
batches      The data of attributions in batches, and what the dimensions of values count in them
"""
