"""One page per kind of result.

ablation           Ablations as a page: each metric over how many units are gone, the best ones beside random ones
activations        A collection as a page: of what it was collected, how, which sites it has, what went wrong
attention          Attention as a page: what heads are like, where each target looked, and the maps of heads that
                   were picked
beams              Beams as a tree in lines: what one beam went on with alone is one line, below it whatever it
                   split into
evaluation         Pages about evaluations: a curve over the units kept, controls, nulls
factors            Factors as a page: the text in the colour of each, how they rise and fall, and what they are
                   made of
generation         A generation as a page: the text coloured by how sure the model was, each step, what else could
                   have been chosen
lens               A lens as a page: what each layer would have written, coloured by the rank of what was
logit_attribution  A logit as a sum, as a page: bars for each layer, a map of layers × heads, the neurons that
                   added most
patching           Patching as a page: a map of layers × tokens, or of layers × heads, and what recovers most
report             The page of a report: the answer first, then where, which, how many, on what, why, and what to
                   mistrust
saliency           Saliency as a page: the text coloured for each target, a map of all, and the numbers
similarity         Similarities as a page: a map of all pairs, what lies beside each other, and the numbers
units              Pages about units: what one fires on and who ranks it where
"""
