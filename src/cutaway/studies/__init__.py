"""Ready studies: edits made one after the other, each measured; resumable.

fingerprints   Short texts by which a model or a change is known again
journal        The file of a study: what it is in the first line, then one line for each row that is done
lesions        The lesion sweep: each part of a model changed in turn, and what that does to a metric
metric_call    Calling what the user measures with: from the same random state each time, read as an array
patching       The patching sweep: values of a clean run put into a corrupted one, site by site and position by
               position
reached_sites  Which sites a run reaches, and what their values are like
"""

from cutaway.results.lesions import Lesions as Lesions
from cutaway.results.patching import Patching as Patching
from cutaway.studies.lesions import lesion as lesion
from cutaway.studies.patching import patch as patch

__all__ = ["Lesions", "Patching", "lesion", "patch"]
