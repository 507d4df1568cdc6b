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

Imports are lazy: reading recorded data does not need torch.
"""

from cutaway.core import late
from cutaway.core.version import __version__ as __version__

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)

late.bind("Diff.draw", "cutaway.views.diff.diff_graph:draw")
late.bind("Diff.to_html", "cutaway.server.page:to_html")
late.bind("Factors.on", "cutaway.lm.factorization.factors:on")
late.bind("Generation.attention", "cutaway.lm.attention.attention:attention")
late.bind("Generation.logit_attribution", "cutaway.lm.logit_attribution.logit_attribution:logit_attribution")
late.bind("attention.flow", "cutaway.lm.saliency.rollout:flow")
late.bind("attention.rollout", "cutaway.lm.saliency.rollout:rollout")
late.bind("attention.steps", "cutaway.lm.saliency.rollout:attention_steps")
late.bind("Generation.factors", "cutaway.lm.factorization.factors:factors")
late.bind("Generation.lens", "cutaway.lm.lens.lens:lens")
late.bind("Generation.saliency", "cutaway.lm.saliency.saliency:saliency")
late.bind("Page._repr_html_", "cutaway.views.pages.html:static_html")
late.bind("Page.text", "cutaway.views.pages.text:as_text")
late.bind("Page.to_html", "cutaway.server.page:to_html")
late.bind("neurons.page", "cutaway.neurons.exploration.pages:page")
late.bind("neuron_page", "cutaway.views.pages.results.units:neuron_page")
late.bind("units_page", "cutaway.views.pages.unit_texts:units_page")
late.bind("ranking_page", "cutaway.views.pages.results.units:ranking_page")
late.bind("result._repr_html_", "cutaway.views.pages.result_pages:repr_html")
late.bind("result.page", "cutaway.views.pages.result_pages:page_of")
late.bind("result.save", "cutaway.store.results.result_file:save")
late.bind("Trace._repr_html_", "cutaway.views.showable:repr_html")
late.bind("Selection.draw", "cutaway.views.draw.draw:draw_selection")
late.bind("Trace.draw", "cutaway.views.draw.draw:draw")
late.bind("Trace.patch_path", "cutaway.capture.replay.patch_path:patch_path")
late.bind("Trace.replay", "cutaway.capture.replay.replay:replay")
late.bind("Trace.save", "cutaway.store.traces.trace_file:save")
late.bind("Trace.to_html", "cutaway.server.page:to_html")
late.bind("Trace.validate", "cutaway.capture.validation.validate:validate")
late.bind("Trace.retained", "cutaway.capture.saved.for_backward:retained")
late.bind("nonfinite.array", "cutaway.capture.tensors.nonfinite:array")
late.bind("nonfinite.counts", "cutaway.capture.tensors.nonfinite:counts")
late.bind("raw.compact", "cutaway.capture.tensors.raw_bytes:compact")
late.bind("raw", "cutaway.capture.tensors.raw_bytes:raw")
