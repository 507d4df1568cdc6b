"""Public names of `cutaway.probes` and where each is defined; see `cutaway.core.late.facade`."""

from cutaway.neurons.probes.gaussian.probe import Gaussian as Gaussian
from cutaway.neurons.probes.linear.probe import Linear as Linear
