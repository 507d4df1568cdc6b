"""Public names of `cutaway.store` and where each is defined; see `cutaway.core.late.facade`."""

from cutaway.core.arrays import Raw as Raw
from cutaway.store.activations.activations import Activations as Activations
from cutaway.store.exports.export import export as export
from cutaway.store.format.manifest import Head as Head
from cutaway.store.format.records import Row as Row
from cutaway.store.format.segments import Limits as Limits
from cutaway.store.runs.run import Run as Run
from cutaway.store.runs.samples import packed_samples as packed_samples
from cutaway.store.verification.verify import verify as verify
from cutaway.store.writing.writer import Options as Options
from cutaway.store.writing.writer import Writer as Writer
