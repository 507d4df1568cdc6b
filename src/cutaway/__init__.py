"""Cutaway: see inside a neural network while it works.

    import cutaway

    trace = cutaway.trace(model, x)              # every operation of the forward pass
    trace["relu_3"].value                        # by label
    trace["features.3"].parents                  # by module address
    trace.draw("net.svg", depth=2)

    with cutaway.watch(model, save="encoder.**") as trace:
        loss_fn(model(x), y).backward()
    trace["encoder.2.attn/softmax"].grad

    with cutaway.record("runs/base", model, every=50) as run:   # a whole training, step by step
        for x, y in loader:
            with run.step():
                ...
    cutaway.load("runs/base")["encoder.2"].stats("std")

Nothing is imported until it is used: looking at what was recorded needs no torch.
"""

from typing import TYPE_CHECKING, Any

from cutaway.core import late
from cutaway.core.version import __version__ as __version__

if TYPE_CHECKING:
    from cutaway import lm as lm
    from cutaway import neurons as neurons
    from cutaway import probes as probes
    from cutaway import studies as studies
    from cutaway.capture.differing import diff as diff
    from cutaway.capture.editing import edit as edit
    from cutaway.capture.watching import sites as sites
    from cutaway.capture.watching import trace as trace
    from cutaway.capture.watching import watch as watch
    from cutaway.collecting.collector import collect as collect
    from cutaway.core.errors import CutawayError as CutawayError
    from cutaway.graph.op import Op as Op
    from cutaway.graph.trace import Trace as Trace
    from cutaway.language.generating import generate as generate
    from cutaway.recording.recorder import record as record
    from cutaway.results.generation import Generation as Generation
    from cutaway.server.showing import show as show
    from cutaway.store.activations import Activations as Activations
    from cutaway.store.loading import load as load
    from cutaway.store.run import Run as Run

_PLACES = {
    "Activations": "cutaway.store.activations",
    "CutawayError": "cutaway.core.errors",
    "Generation": "cutaway.results.generation",
    "Op": "cutaway.graph.op",
    "Run": "cutaway.store.run",
    "Trace": "cutaway.graph.trace",
    "collect": "cutaway.collecting.collector",
    "diff": "cutaway.capture.differing",
    "edit": "cutaway.capture.editing",
    "generate": "cutaway.language.generating",
    "load": "cutaway.store.loading",
    "record": "cutaway.recording.recorder",
    "show": "cutaway.server.showing",
    "sites": "cutaway.capture.watching",
    "trace": "cutaway.capture.watching",
    "watch": "cutaway.capture.watching",
}

_NAMESPACES = ("lm", "neurons", "probes", "studies")

__all__ = sorted([*_PLACES, *_NAMESPACES])

late.bind("Diff.draw", "cutaway.views.differences:draw")
late.bind("Diff.to_html", "cutaway.server.page:to_html")
late.bind("Factors.on", "cutaway.language.factors:on")
late.bind("Generation.attention", "cutaway.language.attending:attention")
late.bind("Generation.logit_attribution", "cutaway.language.logit_attribution:logit_attribution")
late.bind("attention.flow", "cutaway.language.saliency_rollout:flow")
late.bind("attention.rollout", "cutaway.language.saliency_rollout:rollout")
late.bind("attention.steps", "cutaway.language.saliency_rollout:steps_of")
late.bind("Generation.factors", "cutaway.language.factors:factors")
late.bind("Generation.lens", "cutaway.language.lens:lens")
late.bind("Generation.saliency", "cutaway.language.saliency:saliency")
late.bind("Page._repr_html_", "cutaway.views.plates_html:still")
late.bind("Page.text", "cutaway.views.plates_text:as_text")
late.bind("Page.to_html", "cutaway.server.page:to_html")
late.bind("neurons.page", "cutaway.neurons.pages:page")
late.bind("neuron_page", "cutaway.views.neuron_view:neuron_page")
late.bind("units_page", "cutaway.views.unit_texts:units_page")
late.bind("ranking_page", "cutaway.views.neuron_view:ranking_page")
late.bind("result._repr_html_", "cutaway.views.result_pages:repr_html")
late.bind("result.page", "cutaway.views.result_pages:page_of")
late.bind("result.save", "cutaway.store.results:save")
late.bind("Trace._repr_html_", "cutaway.views.showing:repr_html")
late.bind("Selection.draw", "cutaway.views.drawing:draw_selection")
late.bind("Trace.draw", "cutaway.views.drawing:draw")
late.bind("Trace.replay", "cutaway.capture.replaying:replay")
late.bind("Trace.save", "cutaway.store.traces:save")
late.bind("Trace.to_html", "cutaway.server.page:to_html")
late.bind("Trace.validate", "cutaway.capture.validating:validate")
late.bind("Trace.retained", "cutaway.capture.retained:retained")
late.bind("raw", "cutaway.capture.raw:raw")


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(late.imported(_PLACES[name], f"cutaway.{name}"), name)
    if name in _NAMESPACES:
        return late.imported(f"cutaway.{name}", f"cutaway.{name}")
    raise AttributeError(f"module 'cutaway' has no attribute {name!r}; it offers {', '.join(__all__)}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
