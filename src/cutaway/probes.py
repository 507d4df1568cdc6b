"""Probes: estimators with scikit-learn's manners that read labels off units, and rank the units by it.

`cutaway.probes.Linear` and `cutaway.probes.Gaussian`. Nothing is imported until it is used.
"""

from typing import TYPE_CHECKING, Any

from cutaway.core import late

if TYPE_CHECKING:
    from cutaway.neurons.gaussian import Gaussian as Gaussian
    from cutaway.neurons.linear import Linear as Linear

_PLACES = {"Gaussian": "cutaway.neurons.gaussian", "Linear": "cutaway.neurons.linear"}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(late.imported(_PLACES[name], f"cutaway.probes.{name}"), name)
    raise AttributeError(f"module 'cutaway.probes' has no attribute {name!r}; it offers {', '.join(__all__)}")


def __dir__() -> list[str]:
    return list(__all__)
