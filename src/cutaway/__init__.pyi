"""Public names of `cutaway` and where each is defined; see `cutaway.core.late.facade`."""

from cutaway import lm as lm
from cutaway import neurons as neurons
from cutaway import probes as probes
from cutaway import studies as studies
from cutaway.capture.api import sites as sites
from cutaway.capture.api import trace as trace
from cutaway.capture.api import watch as watch
from cutaway.capture.diff import diff as diff
from cutaway.capture.interventions.edit import edit as edit
from cutaway.collecting.collect import collect as collect
from cutaway.core.errors import CutawayError as CutawayError
from cutaway.core.version import __version__ as __version__
from cutaway.graph.op import Op as Op
from cutaway.graph.trace import Trace as Trace
from cutaway.lm.generation.generate import generate as generate
from cutaway.recording.recorder import record as record
from cutaway.results.generation import Generation as Generation
from cutaway.server.show import show as show
from cutaway.store.activations.activations import Activations as Activations
from cutaway.store.load import load as load
from cutaway.store.runs.run import Run as Run
