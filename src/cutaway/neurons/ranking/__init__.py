"""Ranking methods, one file each, and the table that names them (`rank`).

average_precision  Average precision of a unit as a detector of the label (NeuroX calls it IoU)
class_statistics   Per-class sums of every unit, computed in one pass over the rows
combine            Combines the scores of all labels into one `Ranking` with a ranking per label
compare            Compares rankings: overlap of their top units, votes, stability over seeds
from_probe         Rankings by the weights of a linear probe and by the units of a Gaussian probe
iou                Intersection over union of the rows where a unit is active and the rows with the label
mean_select        Mean Select: mean z-score of a unit over the rows with the label (Fan et al., 2023)
method_options     `MethodOptions`: the options of all ranking methods, as `rank` and `stability` take them
probeless          Probeless: differences between the class means of a unit
random_order       Random order, the baseline for every method
rank               `rank`: one function for all ranking methods, and the table of methods
selectivity        Selectivity: difference of the means with and without the label, divided by the range
thresholds         Threshold sweeps over sorted values of many units, for average precision and IoU
"""
