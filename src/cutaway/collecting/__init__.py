"""`cutaway.collect`: runs a model over a corpus and keeps the activations of chosen units.

batches         Data without text, as it was handed in: tensors that are cut into batches, or batches that
                somebody else makes
collect         The verb `collect`: a model goes over a data set, and what some of its units gave is kept, row by
                row
dimensions      How the value at each collected site becomes rows × units: by its unit layout, which one traced
                run tells
model_call      How a model of transformers is called with tokens: which inputs it takes, and which half of it
                runs
pooling         Several positions become one row: the first, the last, their average or their maximum
provenance      Of what and with what a collection was made: enough to know a model, a tokenizer and a corpus
                again
random_weights  A model with the weights of none: the baseline against which what was learned is seen
sharding        The share of a corpus that one process of several collects, so that a job of many is done in a
                part of the time
site_values     The values that `collect` takes: one tensor of each site and pass, and its shortest name
tensor_sweep    A sweep over tensors: images, signals, tables, tokens that were made elsewhere
text_sweep      A sweep over text: windows of the corpus, in each the sentences of like length together
texts           Text as it was handed in: sentences, pre-split words and pairs, each word with its place in the
                text
tokenization    From sentences to tokens and rows: what the model reads, and which of its tokens make up each row
windows         Windows: the rows of some items that follow each other in the corpus, and where they go
word_alignment  Which tokens a word became, found without offsets: for tokenizers that do not tell them
"""

from cutaway.collecting.collect import CollectOptions as CollectOptions
from cutaway.collecting.collect import collect as collect
from cutaway.collecting.random_weights import randomized as randomized

__all__ = ["CollectOptions", "collect", "randomized"]
