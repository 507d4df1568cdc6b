"""Tests how well chosen units predict the labels: cross-validation, controls, permutation tests.

controls     Control tasks: labels that only memory of the words can tell (Hewitt and Liang, "Designing and
             interpreting probes with control tasks", EMNLP 2019)
evaluate     How well the units that a method finds tell the labels: on rows it has not seen, beside what chance
             and memory do
metrics      How well predictions fit: accuracy, F1, Matthews, Pearson, Spearman, or a function
permutation  What would be found if there were nothing to find: labels permuted, p-values, bits that chance tells
ranker       What is evaluated: whatever names, makes or is a ranking of units, as one thing that ranks training
             rows
splits       Which rows are learned from and which are tested on: whole sentences, or whole word types, on one
             side each
trials       One pass over the splits of a seed: units are ranked and probes fitted on training rows, test rows
             are predicted
"""
