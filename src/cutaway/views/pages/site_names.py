"""Short names of sites for rows and columns: common parts are left out."""

from __future__ import annotations

import re
from collections.abc import Sequence


def short_site_names(sites: Sequence[str]) -> list[str]:
    """Sites without their common prefix and suffix; layers keep their numbers.

    >>> short_site_names(["model.layers.0.mlp.down_proj@in.0", "model.layers.10.mlp.down_proj@in.0"])
    ['0', '10']
    >>> short_site_names(["encoder.0.mlp", "decoder.0.mlp"]), short_site_names(["h.3"])
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


def neuron_name(site: str) -> str:
    """A readable neuron name if its site has a layer number; otherwise the site.

    >>> neuron_name("model.layers.28.mlp.down_proj@in.0#1095"), neuron_name("3 head 2"), neuron_name("#4")
    ('layer 28, neuron 1095', '3 head 2', '#4')
    """
    parts = _layer_and_number(site)
    return f"layer {parts[0]}, neuron {parts[1]}" if parts else site


def brief_neuron(site: str) -> str:
    """A shorter form, for lists.

    >>> brief_neuron("model.layers.28.mlp.down_proj@in.0#1095"), brief_neuron("act#4")
    ('28 · 1095', 'act#4')
    """
    return " · ".join(_layer_and_number(site) or (site,))


def _layer_and_number(site: str) -> tuple[str, str] | None:
    where, is_unit, unit = site.rpartition("#")
    layers = re.findall(r"(?<=\.)\d+(?=\.)", where.partition("@")[0])
    return (layers[0], unit) if is_unit and len(layers) == 1 else None
