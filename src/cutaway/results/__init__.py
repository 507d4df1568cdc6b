"""Results of analyses: frozen dataclasses of plain data, independent of the model.

diff        What differs between two traces: the answer of `cutaway.diff`
lesions     `Lesions`: the result of `cutaway.studies.lesion`
lm/         Results of `cutaway.generate`, its analyses and `cutaway.lm`
neurons/    Results of `cutaway.neurons`
patching    `Patching`: the result of `cutaway.studies.patch` and `cutaway.lm.patch`
result      `Result`: the base class of all results, with `save`, `page`, `text` and `to_html`
validation  The report of `trace.validate()`
"""

from cutaway.core import late

__getattr__, __dir__, __all__ = late.facade(__name__, __file__)
