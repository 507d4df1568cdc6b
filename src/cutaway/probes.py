"""Probes: scikit-learn estimators that predict labels from units and rank the units.

`cutaway.probes.Linear` and `cutaway.probes.Gaussian`, imported on first use.
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
