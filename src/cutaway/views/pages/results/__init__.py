"""One page per kind of result.

ablation           Ablation: each metric by number of ablated units, for the top units and for random units
activations        Collection of activations: its provenance, sites and problems
attention          The page of attention weights: attention by target and by head, statistics of heads
beams              The section of a beam search: the beams as an indented tree
evaluation         Evaluation (score by number of units, controls, permutation test) and `Layers`
factors            The page of neuron factors: text colored by factor, curves over positions, units, layers
generation         The page of a generation: text colored by confidence, scores of each step, alternatives
lens               The page of a logit lens: predictions by layer, colored by the rank of the target
logit_attribution  The page of direct logit attribution: contributions by layer, head and neuron
patching           The page of activation patching: a map of layers × tokens or heads, and the largest effects
report             Report: answer, sites, top units, scores, what activates the units, ablation and caveats
saliency           The page of saliency: text colored by target, a map of all targets, and the highest scores
similarity         The page of similarities: a map of all pairs, adjacent layers, and the numbers
units              Units: what activates one unit and how methods rank it; the top units of a ranking
"""
