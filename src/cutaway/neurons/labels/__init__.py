"""Labels for rows of activations: read from corpora, made by rules, aligned to tokens.

align     Converts labels of sentences, words and spans to one label per row of activations
annotate  Labels by rule: vocabulary, regular expression or function; balancing and filtering of rows
corpora   Reads labeled sentences from CoNLL, CoNLL-U, TSV and text files and Hugging Face datasets
labels    Encodes labels as numbers: classes, several labels per row, or real numbers
"""
