"""Causal analysis in the running model: ablation and attribution.

ablate       `ablate`: metrics of the running model without the top units, compared with random units
attribute    `attribute`: gradient attribution of the model output to units
attribution  Gradient × activation, integrated gradients and conductance, computed batch by batch
batches      Splits data into batches; finds the sample and unit dimensions of values
"""
