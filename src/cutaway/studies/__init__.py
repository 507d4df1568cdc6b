"""Studies: sweeps of edits, each measured by a metric; resumable.

fingerprints   Fingerprints of models and edits, to recognize a study when it is resumed
journal        The file of a study: a header line, then one JSON line per finished row
lesions        `lesion`: change each part of a model in turn and measure the effect on a metric
metric_call    Calls the user's metric from the same RNG state each time; converts the result to an array
patching       `patch`: activation patching, by site and position
reached_sites  Runs a function once, and returns the sites it reached with shapes, means or values
"""

from cutaway.results.lesions import Lesions as Lesions
from cutaway.results.patching import Patching as Patching
from cutaway.studies.lesions import lesion as lesion
from cutaway.studies.patching import patch as patch

__all__ = ["Lesions", "Patching", "lesion", "patch"]
