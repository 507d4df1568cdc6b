"""Ranking methods, one file each, and the table that names them (`rank`).

average_precision  Average precision of a unit as a detector of the label: what NeuroX calls IoU
class_statistics   Sums over the rows, one pass over the blocks: what the streaming methods know of each unit
combine            From scores of every label to one ranking with a ranking for each label inside
compare            How compatible methods are: overlaps of their best units, and votes on them
from_probe         Rankings that come out of a probe: it is fitted, and says which units it reads the labels from
iou                Intersection over union of the rows where a unit fires and the rows with the label
mean_select        Mean Select: how far a unit is from its mean where the concept is (Fan et al., 2023, arXiv
                   2301.12608)
probeless          Probeless: how far apart the means of the classes are
random_order       A random order: what every method has to be better than
rank               One call for every method that ranks units, and the table of those methods
selectivity        Selectivity of a unit: the difference of its means with and without the label, in parts of its
                   range
thresholds         A threshold that sweeps over all values of many units at once: how many rows it leaves, and how
                   many with the label
"""
