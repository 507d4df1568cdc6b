"""Public names of `cutaway.triggers` and where each is defined; see `cutaway.core.late.facade`."""

from cutaway.recording.flight.flight_step import FlightStep as FlightStep
from cutaway.recording.flight.triggers import GradientJump as GradientJump
from cutaway.recording.flight.triggers import LossSpike as LossSpike
from cutaway.recording.flight.triggers import NonFinite as NonFinite
from cutaway.recording.flight.triggers import Raised as Raised
from cutaway.recording.flight.triggers import Trigger as Trigger
