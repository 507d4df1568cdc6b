"""Generates text, keeps what the model read and chose, and describes it.

beams       Beams: what a beam search had alive at each step, as a tree
build       A `Generation` out of ids: run once more as a whole for the scores, and described
classify    Models that write nothing: masks that are filled, sequences and tokens that get labels
generate    The verb `generate`: a model writes, and what it read and chose is kept as it was
model_kind  What sort of language model a model is, found by asking it
prompts     What a model is asked with: a text, a template with fields, messages of a chat, a pair of texts, or
            plain ids
scores      Step scores: how sure a model was of what it chose, and of what else
tokens      Tokens as people read them: display text, words and special tokens, whatever the tokenizer's way of
            writing
"""
