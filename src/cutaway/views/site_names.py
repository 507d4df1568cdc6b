"""Sites as names of rows and columns: what all of them share is left out."""

from __future__ import annotations

from collections.abc import Sequence


def shortened(sites: Sequence[str]) -> list[str]:
    """Sites without the parts that all begin or end with; layers are left with their numbers.

    >>> shortened(["model.layers.0.mlp.down_proj@in.0", "model.layers.10.mlp.down_proj@in.0"])
    ['0', '10']
    >>> shortened(["encoder.0.mlp", "decoder.0.mlp"]), shortened(["h.3"])
    (['encoder', 'decoder'], ['h.3'])
    """
    if len(set(sites)) < 2:
        return list(sites)
    parts = [site.split(".") for site in sites]
    fewest = min(map(len, parts))
    start = next((i for i in range(fewest) if len({each[i] for each in parts}) > 1), fewest - 1)
    room = fewest - start - 1
    end = next((i for i in range(room) if len({each[-1 - i] for each in parts}) > 1), room)
    return [".".join(each[start : len(each) - end]) for each in parts]
