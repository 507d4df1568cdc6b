"""Triggers of the flight recorder (`flight=`): what writes the last steps to the run, and what your own gets.

Each name is imported on first use.
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
