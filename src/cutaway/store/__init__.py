"""Everything on disk: the folder format, its writers and readers. No torch.

activations/   Collected activations on disk and in memory
backends/      Where archives are stored: a local folder or memory
exports/       Exports parts of an archive as files for other programs
format/        The folder format: frames, records, segments, file names
load           `cutaway.load`: whatever lies at a path, as the noun it is
neurox/        Files in the formats of NeuroX
reading/       Reads archives: sessions, index, segments
results/       Analysis results on disk
runs/          Recorded runs, read back
traces/        Traces on disk
verification/  `cutaway verify`: checks every byte of an archive
writing/       Writes archives: one session at a time, by a thread of its own, safe against a crash at any moment
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
