"""Generates text, stores what the model read and chose, and describes it.

beams       Records all beams of a beam search as a tree
build       Builds a `Generation` from token ids
classes     The classes that the logits of a model score: tokens, or the labels of a classifier
classify    Masked language models and classifiers: fill masks, label texts or tokens
generate    `cutaway.generate`: runs a language model and stores exactly what it read and chose
model_kind  The kind of a language model, found by running it
prompts     Encodes prompts: a text, a template, chat messages, a pair of texts, or token ids
scores      Scores of each step: probability, entropy and rank of the choice, and the most likely alternatives
tokens      Converts token ids to readable text, words and special tokens
"""
