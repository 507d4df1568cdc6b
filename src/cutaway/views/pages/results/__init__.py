"""One page per kind of result.

ablation           Ablations as a page: each metric over how many units are gone, the best ones beside random ones
activations        A collection as a page: of what it was collected, how, which sites it has, what went wrong
attention          The page of attention weights: attention by target and by head, statistics of heads
beams              The section of a beam search: the beams as an indented tree
evaluation         Pages about evaluations: a curve over the units kept, controls, nulls
factors            The page of neuron factors: text colored by factor, curves over positions, units, layers
generation         The page of a generation: text colored by confidence, scores of each step, alternatives
lens               The page of a logit lens: predictions by layer, colored by the rank of the target
logit_attribution  The page of direct logit attribution: contributions by layer, head and neuron
patching           The page of activation patching: a map of layers × tokens or heads, and the largest effects
report             The page of a report: the answer first, then where, which, how many, on what, why, and what to
                   mistrust
saliency           The page of saliency: text colored by target, a map of all targets, and the highest scores
similarity         The page of similarities: a map of all pairs, adjacent layers, and the numbers
units              Pages about units: what one fires on and who ranks it where
"""
