"""Neurons: which units encode a concept, what activates them, and how reliable that is.

    ranking = cutaway.neurons.rank(acts, labels)          # or method="linear", "gaussian", "iou", …
    with cutaway.edit(model, at=ranking.top(20), to=0):
        ...

Names are imported on first use.

    causal/       Causal analysis in the running model: ablation and attribution
    evaluation/   How well units predict labels: cross-validation, control tasks, permutation tests
    exploration/  What activates units: words, contexts, clusters, pages and the report
    labels/       Labels for rows of activations: read from corpora, made by rules, aligned to tokens
    probes/       Probes: scikit-learn estimators that predict labels from units and rank the units
    ranking/      Ranking methods, one file each, and the table that names them (`rank`)
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
