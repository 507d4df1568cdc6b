"""The on-disk format, its writers and readers. Imports no torch.

activations/   Collected activations, on disk and in memory
backends/      Where archives are stored: a local folder or memory
exports/       Exports parts of an archive as files for other programs
format/        The folder format: frames, records, segments, file names
load           `cutaway.load`: opens whatever a path holds
neurox/        Reads and writes NeuroX files
reading/       Reads archives: sessions, index, segments
results/       Analysis results on disk
runs/          Recorded runs, read back
traces/        Traces on disk
verification/  `cutaway verify`: checks every byte of an archive
writing/       Writes archives in a background thread; a crash at any moment loses only unacknowledged data
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
