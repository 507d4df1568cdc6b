"""Decides which sites of a step are recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cutaway.core.errors import SiteError
from cutaway.core.formatting import listed, nearest_hint, plural
from cutaway.core.sites import Site


class SiteFilter:
    """Decides which sites are recorded, and whether with gradients and updates."""

    def __init__(
        self, at: Iterable[Site], *, gradients: bool = True, updates: bool = True, parameters: bool = True
    ) -> None:
        self._patterns = list(at)
        self.parameters = parameters
        self.gradients = gradients
        self.updates = updates
        self.inputs = any(pattern.side == "in" for pattern in self._patterns)
        self._has_passes = any(pattern.pass_ is not None for pattern in self._patterns)
        self._decisions: dict[str, bool] = {}
        # Named tensors are recorded in any case, and may come at a later step.
        self._unmatched = [pattern for pattern in self._patterns if pattern.name is None]

    @property
    def covers_all_parameters(self) -> bool:
        """Whether every parameter and buffer is recorded."""
        return self.parameters and not self._patterns

    def covers_parameter(self, name: str) -> bool:
        """Whether to record a parameter or buffer."""
        return self.parameters and self.covers(name)

    def covers(self, site: str, pass_: int = 1) -> bool:
        """Whether to record a site; True for all if there are no patterns."""
        if not self._patterns:
            return True
        key = f"{site}:{pass_}" if self._has_passes and pass_ > 1 else site
        is_covered = self._decisions.get(key)
        if is_covered is None:
            parsed = Site.parse(key)
            is_covered = self._decisions[key] = any(pattern.matches(parsed) for pattern in self._patterns)
            self._unmatched = [pattern for pattern in self._unmatched if not pattern.matches(parsed)]
        return is_covered

    def check_names(self, sites: Iterable[str]) -> None:
        """At the end of the run, raise a `SiteError` for a pattern of named tensors that has matched none.

        Args:
            sites: all recorded sites of named tensors.
        """
        named = list(map(Site.parse, sites))
        for pattern in self._patterns:
            if pattern.name is not None and not any(pattern.matches(site) for site in named):
                asked = str(pattern)
                near = nearest_hint(asked, map(str, named))
                raise SiteError(f"at={asked!r} matches no tensor of the run: name it with run.tensor.{near}")

    def may_cover(self, site: str) -> bool:
        """Whether to record any pass of a site."""
        return self._has_passes or self.covers(site)

    def check(self, op_sites: Callable[[], Iterable[str]]) -> None:
        """After a complete step, raise a `SiteError` for a pattern that has matched nothing. Raises once.

        Args:
            op_sites: returns the sites of all ops of the step; empty if it was not traced.
        """
        unmatched, self._unmatched = self._unmatched, []
        sites = list(self._decisions)
        if any(pattern.op is not None for pattern in unmatched):
            ops = list(op_sites())
            parsed = list(map(Site.parse, ops))
            unmatched = [
                pattern
                for pattern in unmatched
                if pattern.op is None or (ops and not any(pattern.matches(site) for site in parsed))
            ]
            sites = ops if unmatched and unmatched[0].op is not None else sites
        if unmatched:
            asked = str(unmatched[0])
            near = nearest_hint(asked, sites) or f" It has {plural(len(sites), 'site')}: {listed(map(repr, sites))}."
            raise SiteError(f"at={asked!r} matches no site of the first recorded step.{near}")
