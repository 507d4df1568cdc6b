"""Finds the passes of one op by four rules.

1. Calls of one function with the same parameters are passes of one op, wherever they run.
2. Equivalent neighbors of such passes, in the same relative position, are passes of one op, too, and so on outwards.
3. Without parameters, a sequence of calls that repeats back to back is a loop.
4. If a module is called several times, each step of its forward is one op, also without parameters.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Final

from cutaway.graph.analysis.equivalence import Events, events_of, root, unite
from cutaway.graph.analysis.repeats import Run, runs
from cutaway.graph.tables import Tables

_UP, _DOWN = 0, 1
_MOST_VISITS: Final = 6
"""How often the neighbors of one group are visited; a limit keeps the algorithm linear."""
_MOST_ROUNDS: Final = 4
_MOST_RANKS: Final = 8


def recurrent_nodes(tables: Tables, op_nodes: list[int]) -> list[tuple[int, ...]]:
    """Groups of nodes that are passes of one op, in order of execution; ops that ran once are in no group."""
    events = events_of(tables, op_nodes)
    paths = tables.nodes.path
    groups = grouped(events)
    found = []
    for group in groups:
        by_path: dict[str, list[int]] = {}
        for event in group:
            for node in events.results[event]:
                by_path.setdefault(paths[node], []).append(node)
        found += [tuple(nodes) for nodes in by_path.values() if len(nodes) > 1]
    return sorted([*found, *_unpacked_results(events, groups, tables.nodes.parents)])


def _unpacked_results(events: Events, groups: list[list[int]], parents: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Results of one call that the passes of an op read one by one, as in `for step in x`: equivalent to `x[t]`."""
    of = {event: number for number, group in enumerate(groups) for event in group}
    several = (results for event, results in enumerate(events.results) if len(results) > 1 and event not in of)
    call = {node: results[0] for results in several for node in results}
    users: dict[int, set[tuple[int, int]]] = {}
    for event, group in of.items() if call else ():
        for argument, parent in enumerate(parents[events.results[event][0]]):
            if parent in call:
                users.setdefault(parent, set()).add((group, argument))
    alike: dict[tuple[int, frozenset[tuple[int, int]]], list[int]] = {}
    for node in sorted(users):
        alike.setdefault((call[node], frozenset(users[node])), []).append(node)
    return [tuple(nodes) for nodes in alike.values() if len(nodes) > 1]


def grouped(events: Events) -> list[list[int]]:
    """The events that are passes of one op, in order of execution."""
    groups = _Groups(events)
    # Sequences first, also of calls with parameters, because their correspondence is unambiguous.
    for same in _back_to_back(events):
        groups.add(same)
    by_seed: dict[int, list[int]] = {}
    for event, seed in enumerate(events.seeds):
        if seed >= 0:
            by_seed.setdefault(seed, []).append(event)
    for same in by_seed.values():
        groups.make_one(same)
    groups.grow()
    for _ in range(_MOST_ROUNDS):
        if not groups.join_by_place():
            break
        groups.grow()
    # Last, so that nothing grows from it: a shared activation function says nothing about its neighbors.
    groups.join_calls()
    return sorted(sorted(members) for members in groups.members.values())


class _Groups:
    """Groups of events that grow by taking in equivalent neighbors."""

    def __init__(self, events: Events) -> None:
        self.events = events
        self.of = [-1] * len(events)
        self.members: dict[int, list[int]] = {}
        self._places: dict[int, set[int]] = {}
        self._visits: dict[int, int] = {}
        self._sides: dict[tuple[int, int], int] = {}
        """(group, its neighbor) → the side of the neighbor."""
        self._apart: set[tuple[int, int]] = set()
        self._waiting: list[tuple[int, int]] = []
        self._made = 0

    def add(self, events: Iterable[int]) -> int:
        """Make a group of the events that are in none yet; returns -1 if there are fewer than two."""
        free = [event for event in dict.fromkeys(events) if self.of[event] < 0]
        if len(free) < 2:
            return -1
        group, self._made = self._made, self._made + 1
        self.members[group], self._places[group] = [], set()
        self._join(group, free)
        return group

    def make_one(self, events: list[int]) -> None:
        """Merge these events and all groups that contain some of them into one group."""
        first, *others = {self.of[event] for event in events if self.of[event] >= 0} or {self.add(events)}
        for other in others:
            first = self._unite(first, other)
        free = [event for event in events if self.of[event] < 0]
        if free and first >= 0:
            self._join(first, free)

    def _join(self, group: int, events: Iterable[int]) -> None:
        for event in events:
            self.of[event] = group
            self.members[group].append(event)
            self._places[group].add(self.events.places[event])
        heappush(self._waiting, (-len(self.members[group]), group))

    def grow(self) -> None:
        """Take in the neighbors of the groups, largest group first, until nothing changes."""
        while self._waiting:
            size, group = heappop(self._waiting)
            members = self.members.get(group, ())
            # If the group has grown since, it was pushed again with its new size.
            if len(members) == -size and self._visits.get(group, 0) < _MOST_VISITS:
                self._visits[group] = self._visits.get(group, 0) + 1
                for side in (_DOWN, _UP):
                    for neighbors in self._around(group, side):
                        self._settle_all(group, side, neighbors)

    def _around(self, group: int, side: int) -> list[list[int]]:
        """The neighbors of all members by tie and class, as flat pairs (member, neighbor); largest list first."""
        classes = self.events.classes
        neighbors = self.events.below if side == _DOWN else self.events.above
        found: dict[tuple[int, int], list[int]] = {}
        for member in self.members[group]:
            ties = iter(neighbors[member])
            for event in ties:
                key = (next(ties), classes[event])
                if key in found:
                    found[key] += (member, event)
                else:
                    found[key] = [member, event]
        return sorted((pairs for pairs in found.values() if len(pairs) > 2), key=len, reverse=True)

    def _settle_all(self, group: int, side: int, pairs: list[int]) -> None:
        """Group neighbors: first those at one place in the code, then the n-th neighbors of all members."""
        if group not in self.members:
            return
        of, places = self.of, self.events.places
        events = pairs[1::2]
        first = of[events[0]]
        if first >= 0 and all(of[event] == first for event in events):
            self._sides.setdefault((group, first), side)
            return
        by_place: dict[int, list[int]] = {}
        for event in events:
            by_place.setdefault(places[event], []).append(event)
        if len(by_place) == 1:
            self._settle(group, side, events)
            return
        for same in sorted(by_place.values(), key=len, reverse=True):
            self._settle(group, side, same)
        by_rank: dict[int, list[int]] = {}
        last, seen = -1, list[int]()
        for member, event in zip(pairs[::2], events, strict=True):
            if member != last:
                last, seen = member, []
            # Events of an inner loop are at one place, which counts once.
            if places[event] not in seen:
                seen.append(places[event])
            by_rank.setdefault(seen.index(places[event]), []).append(event)
            # Bounded, so that a tensor with thousands of users does not make this quadratic.
            if len(seen) > _MOST_RANKS:
                seen.pop()
        for same in by_rank.values():
            self._settle(group, side, same)

    def _settle(self, group: int, side: int, events: list[int]) -> None:
        """Group events in the same relative position, unless they are already in groups that conflict."""
        of = self.of
        distinct = dict.fromkeys(events)
        if len(distinct) < 2 or group not in self.members:
            return
        counts: dict[int, int] = {}
        for event in distinct:
            counts[of[event]] = counts.get(of[event], 0) + 1
        n_free = counts.pop(-1, 0)
        if not counts:
            self._sides[group, self.add(distinct)] = side
            return
        # On a tie, the older group: the result must not depend on the order of a dict.
        most = max(counts, key=lambda each: (counts[each], -each))
        if n_free:
            free = [event for event in distinct if of[event] < 0]
            if 2 * counts[most] <= len(distinct):
                self._sides[group, self.add(free)] = side
            elif most != group and self._sides.setdefault((group, most), side) == side:
                self._join(most, free)
            else:
                # A neighbor on the other side has another role there, unless it is the same expression.
                known = [event for event in free if self.events.places[event] in self._places[most]]
                if known:
                    self._join(most, known)
        for other in counts:
            if other != most and self._are_one(group, most, other, counts):
                most = self._unite(most, other)

    def _are_one(self, group: int, a: int, b: int, counts: dict[int, int]) -> bool:
        """Whether two groups are one: most of both are on this side of the group, and no pass has both."""
        if group in (a, b) or (a, b) in self._apart or a not in self.members or b not in self.members:
            return False
        if any(2 * counts.get(each, len(self.members[each])) <= len(self.members[each]) for each in (a, b)):
            return False
        # Two events in one iteration of the group have two roles, even if they are equivalent.
        turns = sorted(self.members[group])
        in_a = {bisect(turns, event) for event in self.members[a]}
        if any(bisect(turns, event) in in_a for event in self.members[b]):
            self._apart |= {(a, b), (b, a)}
            return False
        return True

    def _unite(self, a: int, b: int) -> int:
        # The smaller group moves, so each event moves at most log n times.
        large, small = (a, b) if len(self.members[a]) >= len(self.members[b]) else (b, a)
        events = self.members.pop(small)
        del self._places[small]
        self._join(large, events)
        return large

    def join_by_place(self) -> bool:
        """Join events that are the same expression of the same loop as a grouped op; returns whether any joined."""
        events, of = self.events, self.of
        grouped: dict[tuple[int, int, int], list[int]] = {}
        lone: list[tuple[int, tuple[int, int, int]]] = []
        for event, (class_, call, place) in enumerate(zip(events.classes, events.calls, events.places, strict=True)):
            if events.in_loop[place]:
                if of[event] < 0:
                    lone.append((event, (class_, call, place)))
                else:
                    grouped.setdefault((class_, call, place), []).append(event)
        changed = False
        for same in grouped.values():
            last = {of[event]: event for event in same}
            for event in list(last.values())[1:]:
                first = next(iter(last.values()))
                if of[event] != of[first] and self._agree(event, first):
                    self._unite(of[first], of[event])
                    changed = True
        agreed = {key: same[-1] for key, same in grouped.items() if len(same) > 1 and len({of[e] for e in same}) == 1}
        for event, key in lone:
            other = agreed.get(key)
            if other is not None and self._agree(event, other):
                self._join(of[other], [event])
                changed = True
        return changed

    def join_calls(self) -> None:
        """Join the same step of several calls of one module."""
        first: dict[int, int] = {}
        for event, number in enumerate(self.events.repeats):
            if number >= 0 and first.setdefault(number, event) != event:
                self.make_one([first[number], event])

    def _agree(self, event: int, other: int) -> bool:
        """Whether two events at one place belong together: not if one line passed them results of different ops.

        So the relu in `for layer in layers: x = relu(layer(x))` is one op per layer.
        """
        places, of = self.events.places, self.of
        theirs = self.events.above[other]
        given = dict(zip(theirs[1::2], theirs[::2], strict=True))
        mine = self.events.above[event]
        for upper, tie in zip(mine[::2], mine[1::2], strict=True):
            there = given.get(tie, upper)
            if there != upper and places[there] == places[upper] and (of[there] != of[upper] or of[upper] < 0):
                return False
        return True


def _back_to_back(events: Events) -> list[list[int]]:
    """The events of repeated sequences, grouped by their position in the sequence."""
    numbers = events.classes
    same = list(range(len(numbers)))
    joined: set[int] = set()
    for run in runs(numbers):
        # A single function applied repeatedly is a chain of ops, not a loop.
        if len(set(numbers[run.start : run.start + run.period])) > 1:
            for first, last in _chains(events, run):
                joined.update(range(first, last))
                for event in range(first + run.period, last):
                    unite(same, event - run.period, event)
    by_root: dict[int, list[int]] = {}
    for event in sorted(joined):
        by_root.setdefault(root(same, event), []).append(event)
    return list(by_root.values())


def _chains(events: Events, run: Run) -> list[tuple[int, int]]:
    """The parts of a run in which each copy continues the previous one; the last copy may be incomplete."""
    found: list[tuple[int, int]] = []
    first = run.start
    for start in range(run.start + run.period, run.end, run.period):
        end = min(start + run.period, run.end)
        if not _continues(events, start, end, run.period):
            if start - first > run.period:
                found.append((first, start))
            first = start
        elif end == run.end:
            found.append((first, end))
    return found


def _continues(events: Events, start: int, end: int, period: int) -> bool:
    """Whether a copy is the next iteration of the same loop as the previous copy, or is computed from it."""
    places, spots, in_loop, above = events.places, events.spots, events.in_loop, events.above
    for event in range(start, end):
        place, before = places[event], places[event - period]
        # In a loop, events at two places are two ops, even if they happen to be equivalent.
        if place != before and spots[place] != spots[before] and (in_loop[place] or in_loop[before]):
            return False
    if places[start:end] == places[start - period : end - period] and any(in_loop[p] for p in places[start:end]):
        return True
    touches = False
    for event in range(start, end):
        if _inside(above[event], event, start) != _inside(above[event - period], event - period, start - period):
            return False
        touches = touches or any(start - period <= upper < start for upper in above[event][::2])
    return touches


def _inside(above: list[int], event: int, start: int) -> list[tuple[int, int]]:
    """For each parent within the same copy, how far back it is, and the tie to it."""
    return [(event - upper, tie) for upper, tie in zip(above[::2], above[1::2], strict=True) if upper >= start]
