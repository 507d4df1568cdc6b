"""Public names of `cutaway.schedules` and where each is defined; see `cutaway.core.late.facade`."""

from cutaway.recording.schedules.base import Cost as Cost
from cutaway.recording.schedules.base import Schedule as Schedule
from cutaway.recording.schedules.fixed import Growing as Growing
from cutaway.recording.schedules.parse import schedule_of as schedule_of
