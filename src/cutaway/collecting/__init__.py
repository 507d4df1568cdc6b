"""Collecting: a model goes over a corpus, and what its units gave is kept. `cutaway.collect` is the verb."""

from cutaway.collecting.collector import How as How
from cutaway.collecting.collector import collect as collect
from cutaway.collecting.randomising import randomised as randomised

__all__ = ["How", "collect", "randomised"]
