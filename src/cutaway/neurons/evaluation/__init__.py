"""How well units predict labels: cross-validation, control tasks, permutation tests.

controls     Control tasks: random labels per word type, which a probe can only memorize
evaluate     `evaluate` and `layers`: scores of the top units on held-out rows, with baselines and intervals
evaluator    `Evaluator`: runs all seeds and splits of an evaluation, and turns predictions into scores with intervals
metrics      Accuracy, F1, Matthews, Pearson, Spearman or your own metric, with bootstrap resamples
permutation  Permutation of labels by group, p-values, and mutual information on held-out rows
ranker       Turns a method name, function, probe or `Ranking` into a ranker; fits probes
splits       Stratified train/test splits that keep sentences, word types or groups together
trials       Runs all splits of one seed: ranks units and fits probes on training rows, predicts test rows
"""
