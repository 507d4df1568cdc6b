"""Ready studies: edits made one after the other, each measured; resumable."""

from cutaway.results.lesions import Lesions as Lesions
from cutaway.results.patching import Patching as Patching
from cutaway.studies.lesions import lesion as lesion
from cutaway.studies.patching import patch as patch

__all__ = ["Lesions", "Patching", "lesion", "patch"]
