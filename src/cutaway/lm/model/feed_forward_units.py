"""Feed-forward units: of one network for all tokens, or of experts that each process some tokens."""

from __future__ import annotations

from cutaway.lm.model.parts import Units
from cutaway.lm.model.wiring import Wiring, linear_input, linear_operand, weight_of


def find_units(wiring: Wiring, down: int, inside: set[int]) -> Units | None:
    """The units at the input of a down-projection; None if it belongs to a single expert."""
    taken = linear_operand(wiring, down)
    width = (wiring.shape(taken) or (0,))[-1]
    weight = weight_of(wiring, down)
    shape = wiring.shape(weight) or ()
    if wiring.is_expert_weight(weight):
        return None
    if wiring.name(down) != "grouped_mm" or len(shape) != 3:
        return Units(linear_input(wiring, down), wiring.address_of(down), width)
    site = wiring.trace.names.site
    rows = _rows(wiring, taken, inside)
    ends = [p for p in wiring.parents(down) if not wiring.is_float(p) and wiring.shape(p) == shape[:1]]
    return Units(
        site=str(site(wiring.same_numbers(taken))),
        down=wiring.parameter_behind(weight),
        width=width,
        n_experts=shape[0],
        rows=None if rows is None else str(site(rows)),
        ends=str(site(ends[0])) if ends else None,
    )


def _rows(wiring: Wiring, taken: int, inside: set[int]) -> int | None:
    """The node with the token index of each row of the experts' input."""
    n = (wiring.shape(taken) or (0,))[0]
    for node in sorted(wiring.ancestors(taken) & inside):
        parents = wiring.parents(node)
        if wiring.name(node) in ("getitem", "index_select") and len(parents) == 2 and wiring.is_float(parents[0]):
            index = parents[1]
            if not wiring.is_float(index) and wiring.shape(index) == (n,) and len(wiring.shape(parents[0]) or ()) == 2:
                return index
    return None
