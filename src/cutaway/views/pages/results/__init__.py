"""One page per kind of result.

ablation           Ablation: each metric by number of ablated units, for the top units and for random units
activations        Collection of activations: its provenance, sites and problems
attention          Attention as a page: what heads are like, where each target looked, and the maps of heads that
                   were picked
beams              Beams as a tree in lines: what one beam went on with alone is one line, below it whatever it
                   split into
evaluation         Evaluation (score by number of units, controls, permutation test) and `Layers`
factors            Factors as a page: the text in the colour of each, how they rise and fall, and what they are
                   made of
generation         A generation as a page: the text coloured by how sure the model was, each step, what else could
                   have been chosen
lens               A lens as a page: what each layer would have written, coloured by the rank of what was
logit_attribution  A logit as a sum, as a page: bars for each layer, a map of layers × heads, the neurons that
                   added most
patching           Patching as a page: a map of layers × tokens, or of layers × heads, and what recovers most
report             Report: answer, sites, top units, scores, what activates the units, ablation and caveats
saliency           Saliency as a page: the text coloured for each target, a map of all, and the numbers
similarity         Similarities as a page: a map of all pairs, what lies beside each other, and the numbers
units              Units: what activates one unit and how methods rank it; the top units of a ranking
"""
