"""Direct logit attribution: what each part of the model adds to a logit.

contributions      Splits a contribution to the residual stream into heads or neurons
direction          The direction of the residual stream that leads to a logit
logit_attribution  `gen.logit_attribution()`: what each part of a model adds to the logit of each target
"""
