"""Schedules: rules that decide which steps to record (`every=`), and the base class for your own.

Each name is imported on first use.
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
