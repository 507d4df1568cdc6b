"""Labels for the rows of activations: read from corpora, made by rules, aligned to tokens.

align     Labels of sentences, of words in lists and of spans, as one label for each row of activations
annotate  Labels made by a rule, a vocabulary, a regular expression or a function
corpora   Sentences and their labels out of CoNLL, CoNLL-U and TSV files, lines of text, and Hugging Face datasets
labels    Labels as numbers: classes, several labels a row, or real numbers
"""
