"""Schedules: rules that decide which steps are recorded (`every=`), and what your own schedule inherits from.

Nothing is imported until it is used.
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
