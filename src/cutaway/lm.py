"""Language models: what they wrote, and why.

    gen = cutaway.generate(model, tokenizer, "1, 2, 3,")
    cutaway.lm.classify(model, tokenizer, "What a film!", target="POSITIVE")

Nothing is imported until it is used.
"""

from typing import TYPE_CHECKING, Any

from cutaway.core import late

if TYPE_CHECKING:
    from cutaway.language.anatomy import anatomy as anatomy
    from cutaway.language.factoring import factored as factored
    from cutaway.language.factors import factors as factors
    from cutaway.language.generating import generate as generate
    from cutaway.language.labelling import classify as classify
    from cutaway.language.labelling import fill as fill
    from cutaway.language.patching import patch as patch
    from cutaway.language.prompts import Template as Template
    from cutaway.language.similarities import similarity as similarity
    from cutaway.language.similarity_rsa import rdm as rdm

_PLACES = {
    "Template": "prompts",
    "anatomy": "anatomy",
    "classify": "labelling",
    "factored": "factoring",
    "factors": "factors",
    "fill": "labelling",
    "generate": "generating",
    "patch": "patching",
    "rdm": "similarity_rsa",
    "similarity": "similarities",
}

__all__ = sorted(_PLACES)


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(late.imported(f"cutaway.language.{_PLACES[name]}", f"cutaway.lm.{name}"), name)
    raise AttributeError(f"module 'cutaway.lm' has no attribute {name!r}; it offers {', '.join(__all__)}")


def __dir__() -> list[str]:
    return list(__all__)
