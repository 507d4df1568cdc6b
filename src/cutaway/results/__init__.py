"""Results of analyses: frozen dataclasses of plain data, independent of the model.

ablation           `Ablation`: the result of `cutaway.neurons.ablate`
attention          `Attention`: the result of `gen.attention()`
clusters           `Clusters`: the result of `cutaway.neurons.clusters`
comparison         `Comparison` and `Stability`: the results of `cutaway.neurons.compare` and `stability`
diff               What differs between two traces: the answer of `cutaway.diff`
evaluation         `Evaluation` and `Layers`: the results of `cutaway.neurons.evaluate` and `layers`
factors            `Factors`: the result of `gen.factors()` and `cutaway.lm.factorize`
generation         `Generation`: the result of `cutaway.generate`; its methods are the analyses
lens               `Lens`: the result of `gen.lens()`
lesions            `Lesions`: the result of `cutaway.studies.lesion`
logit_attribution  `LogitAttribution`: the result of `gen.logit_attribution()`
patching           `Patching`: the result of `cutaway.studies.patch` and `cutaway.lm.patch`
ranking            `Ranking`: the result of every ranking method
report             `Report`: the result of `cutaway.neurons.report`
result             `Result`: the base class of all results, with `save`, `page`, `text` and `to_html`
saliency           `Saliency`: the result of `gen.saliency()`; and the table of methods
similarity         `Similarity` and `Dissimilarities`: the results of `cutaway.lm.similarity` and `rdm`
token_names        Token texts as names: whitespace becomes visible, as in `web/src/pages/tokens.ts`
tokens             `Tokens`, `Steps` and `Beams`: what a model read and chose, with the scores of each choice
validation         The report of `trace.validate()`
verdicts           Turns evaluations into a verdict and sentences that claim no more than the numbers show
words              `TopWords`, `TopContexts` and `Histograms`: what activates a unit
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
