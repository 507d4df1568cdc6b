"""Results of analyses: frozen, plain data, independent of the model.

ablation           What a model is worth without some of its units: the answer of `cutaway.neurons.ablate`
attention          Which token looked at which: the weights of attention by layer and head
clusters           Units that say the same, together: the answer of `cutaway.neurons.clusters`
comparison         How far methods agree on which units matter: the answers of `cutaway.neurons.compare` and
                   `stability`
diff               What differs between two traces: the answer of `cutaway.diff`
evaluation         How well chosen units tell the labels, and how sure that is: what `cutaway.neurons.evaluate`
                   and `layers` find
factors            Few factors in place of many units: groups of neurons that fire together, and when they do
generation         What a language model wrote, with everything that is needed to explain it
lens               What each layer would have written: the stream after every layer, read by the model's own end
lesions            What each part of a model is worth to a number: the answer of `cutaway.studies.lesion`
logit_attribution  What each part of a model added to a logit, summing to it
patching           Where a model holds what makes two inputs differ: what `cutaway.studies.patch` and
                   `cutaway.lm.patch` answer
ranking            Units in the order of what they are worth: the answer of every ranking method
report             All that was asked of the units of a model in one go: the answer of `cutaway.neurons.report`
result             What all results can do: be shown as a page, printed, and written to disk
saliency           Why each token was written: a score for every token that the model could see
similarity         How alike representations are: the answers of `cutaway.lm.similarity` and `cutaway.lm.rdm`
table_columns      Columns of tables of results
token_names        Tokens as names: what would not be seen of them is written out, as `web/src/pages/tokens.ts`
                   does
validation         The report of `trace.validate()`
verdicts           What evaluations answer, in sentences that promise no more than the numbers do
words              What fires a unit: words, contexts and histograms, as plain data
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
