"""`cutaway.collect`: runs a model over a corpus and stores the activations of chosen sites.

batches         Batches of non-text data: sliced from tensors, or taken from a DataLoader
collect         `cutaway.collect`: run a model over a data set and store activations as rows × units
dimensions      Turns the value at each collected site into rows × units, by its unit layout
model_call      Calls a transformers model with a padded batch of tokens
pooling         Pools positions into rows (first, last, average, max) and moves rows to the CPU
provenance      Describes the model, tokenizer, corpus and versions of a collection, with digests
random_weights  `randomized`: a copy of a model with random weights, as a baseline
sharding        The part of the data that one of several processes collects
site_values     The values at the collected sites: one tensor per site and pass, and its shortest name
tensor_sweep    Collects over tensors: images, signals, tables, ready-made token ids
text_sweep      Collects over text: windows of the corpus, batched by length
texts           Parses text items: sentences, pre-split words and sentence pairs
tokenization    Tokenizes sentences, and finds the tokens that make up each row
windows         Windows of consecutive items: their rows, collected in memory or on disk
word_alignment  Aligns words with tokens without offsets, for slow tokenizers
"""

from cutaway.collecting.collect import collect as collect
from cutaway.collecting.random_weights import randomized as randomized

__all__ = ["collect", "randomized"]
