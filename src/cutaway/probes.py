"""Probes: estimators with scikit-learn's manners that read labels off units, and rank the units by it.

`cutaway.probes.Linear` and `cutaway.probes.Gaussian`. Nothing is imported until it is used.
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
