"""Results of `cutaway.neurons`.

ablation    `Ablation`: the result of `cutaway.neurons.ablate`
clusters    `Clusters`: the result of `cutaway.neurons.clusters`
comparison  `Comparison` and `Stability`: the results of `cutaway.neurons.compare` and `stability`
evaluation  `Evaluation` and `Layers`: the results of `cutaway.neurons.evaluate` and `layers`
ranking     `Ranking`: the result of every ranking method
report      `Report`: the result of `cutaway.neurons.report`
verdicts    Turns evaluations into a verdict and sentences that claim no more than the numbers show
words       `TopWords`, `TopContexts` and `Histograms`: what activates a unit
"""
