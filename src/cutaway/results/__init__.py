"""Results of analyses: frozen dataclasses of plain data, independent of the model.

ablation           `Ablation`: the result of `cutaway.neurons.ablate`
attention          Which token looked at which: the weights of attention by layer and head
clusters           `Clusters`: the result of `cutaway.neurons.clusters`
comparison         `Comparison` and `Stability`: the results of `cutaway.neurons.compare` and `stability`
diff               What differs between two traces: the answer of `cutaway.diff`
evaluation         `Evaluation` and `Layers`: the results of `cutaway.neurons.evaluate` and `layers`
factors            Few factors in place of many units: groups of neurons that fire together, and when they do
generation         What a language model wrote, with everything that is needed to explain it
lens               What each layer would have written: the stream after every layer, read by the model's own end
lesions            `Lesions`: the result of `cutaway.studies.lesion`
logit_attribution  What each part of a model added to a logit, summing to it
patching           `Patching`: the result of `cutaway.studies.patch` and `cutaway.lm.patch`
ranking            `Ranking`: the result of every ranking method
report             `Report`: the result of `cutaway.neurons.report`
result             `Result`: the base class of all results, with `save`, `page`, `text` and `to_html`
saliency           Why each token was written: a score for every token that the model could see
similarity         How alike representations are: the answers of `cutaway.lm.similarity` and `cutaway.lm.rdm`
token_names        Tokens as names: what would not be seen of them is written out, as `web/src/pages/tokens.ts`
                   does
validation         The report of `trace.validate()`
verdicts           Turns evaluations into a verdict and sentences that claim no more than the numbers show
words              `TopWords`, `TopContexts` and `Histograms`: what activates a unit
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
