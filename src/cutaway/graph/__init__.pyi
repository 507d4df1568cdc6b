"""Public names of `cutaway.graph` and where each is defined; see `cutaway.core.late.facade`."""

from cutaway.graph.dependencies.graph import Dependencies as Dependencies
from cutaway.graph.modules import Module as Module
from cutaway.graph.modules import ModuleCall as ModuleCall
from cutaway.graph.op import Op as Op
from cutaway.graph.selection import Selection as Selection
from cutaway.graph.trace import Trace as Trace
