"""Parameters and buffers that no optimizer steps: their values as the forward pass reads them, and their change.

Manual SGD, EMA teachers, target networks and BatchNorm change tensors without an optimizer, so no hook tells when.
Their copies from the start of a step are compared with the tensors at its end. In the first recorded step it is not
known yet which parameters an optimizer steps, so all are copied; a copy is given up when an optimizer appears.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.parameter import is_lazy

from cutaway.capture.tensors.aliasing import version_of
from cutaway.core.formatting import plural
from cutaway.recording.models import NamedParameter, RecordedModels

_SMALL = 65_536
"""Frozen tensors of up to this many bytes are copied in every recorded step."""
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_Stamp = tuple[int | None, int]
"""Version counter and address of the memory."""


class UnoptimizedTensors:
    """The parameters and buffers of one step that no optimizer is known to step.

    Args:
        models: the recorded models.
        parameters: those to record.
        most_bytes: the most memory that the copies may take; 0 if changes are not recorded.
    """

    def __init__(self, models: RecordedModels, parameters: Iterable[NamedParameter], *, most_bytes: int) -> None:
        self._models = models
        self._most_bytes = most_bytes
        optimized = models.optimized
        self._parameters = {
            id(each.tensor): each for each in parameters if optimized is None or id(each.tensor) not in optimized
        }
        self._unread: dict[str, list[NamedParameter]] = {}
        """Address of a model that has not been called → its tensors that are read at its first call."""
        self._copies: dict[int, Tensor] = {}
        self._stamps: dict[int, _Stamp] = {}
        self._is_short = False
        self.note = ""
        """What was not recorded and why, at the end of the step; "" if nothing is missing."""

    def start(self) -> None:
        """Copy the tensors, as far as memory allows."""
        for each in self._parameters.values():
            # Until the first step has shown which parameters an optimizer steps, it reads them better: by then the
            # model has returned, and their units are known.
            if self._models.optimized is not None or not each.tensor.requires_grad:
                self._unread.setdefault(self._models.root_of[id(each.tensor)], []).append(each)
        if self._most_bytes:
            self._copy()

    def _copy(self) -> None:
        n_bytes = 0
        for each in sorted(filter(_is_copyable, self._parameters.values()), key=_priority):
            stamp = self._stamps[id(each.tensor)] = _stamp(each.tensor)
            if self._models.still.get(id(each.tensor)) == stamp:
                continue
            local = local_part(each.tensor)
            n_bytes += local.nbytes
            if n_bytes <= self._most_bytes:
                self._copies[id(each.tensor)] = local.clone()
            else:
                self._is_short = True

    def is_summed(self, parameter: NamedParameter) -> bool:
        """Whether gradients of a parameter are summed as they arrive, because perhaps no optimizer reads them."""
        return id(parameter.tensor) in self._parameters

    def entered(self, root: str) -> list[NamedParameter]:
        """The tensors of a model that is called for the first time, to be read now."""
        return self._unread.pop(root, [])

    def give_up(self, parameter: NamedParameter) -> Tensor | None:
        """An optimizer steps this parameter: returns the memory of its copy, if it has one."""
        self._parameters.pop(id(parameter.tensor), None)
        return self._copies.pop(id(parameter.tensor), None)

    def is_still(self, parameter: NamedParameter) -> bool:
        """Whether a large tensor has not changed in earlier steps, nor since."""
        still = self._models.still.get(id(parameter.tensor))
        return still is not None and still == _stamp(parameter.tensor)

    def value(self, parameter: NamedParameter) -> Tensor:
        """The values of a tensor that was not read before the end of the step: those from its start."""
        copy = self._copies.get(id(parameter.tensor))
        return parameter.tensor.detach() if copy is None else copy

    def changed(self) -> list[NamedParameter]:
        """The copied tensors whose bits have changed. Call it once, at the end of the step."""
        self.note = self._missed_note()
        copied = [self._parameters[id_] for id_ in self._copies]
        flags = _differ([(local_part(each.tensor), self._copies[id(each.tensor)]) for each in copied])
        for each, is_changed in zip(copied, flags, strict=True):
            is_large = self._copies[id(each.tensor)].nbytes > _SMALL
            if is_large and not is_changed and not each.tensor.requires_grad:
                self._models.still[id(each.tensor)] = self._stamps[id(each.tensor)]
        return [each for each, is_changed in zip(copied, flags, strict=True) if is_changed]

    def _missed_note(self) -> str:
        parameters, uncopied = self._parameters, self._stamps.keys() - self._copies.keys()
        missed = [
            parameter.names[0]
            for id_, parameter in parameters.items()
            if id_ in uncopied and _stamp(parameter.tensor) != self._stamps[id_]
        ]
        if not missed:
            return ""
        reason = (
            "the copies they need are larger than most_update_bytes"
            if self._is_short
            else "it had not changed in earlier steps, so no copy was made"
        )
        others = f" and {plural(len(missed) - 1, 'other')}" if len(missed) > 1 else ""
        return f"changes of {missed[0]!r}{others} outside an optimizer were not recorded as updates: {reason}"

    def update(self, parameter: NamedParameter) -> Tensor | None:
        """The change of a tensor, in the memory of its copy; None if it has another shape now."""
        before, after = self._copies.pop(id(parameter.tensor)), local_part(parameter.tensor)
        if after.shape != before.shape or after.dtype != before.dtype or after.device != before.device:
            return None
        if (after.is_floating_point() or after.is_complex()) and after.itemsize > 1:
            return torch.sub(after, before, out=before)
        wide = torch.float32 if after.is_floating_point() else torch.int64
        return after.to(wide) - before.to(wide)

    def stop(self) -> None:
        """Free the copies. Idempotent."""
        self._copies.clear()
        self._unread.clear()


def local_part(tensor: Tensor) -> Tensor:
    """The parameter as a plain tensor; the local shard of a DTensor."""
    local: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor  # type: ignore[operator]
    return local.detach()


def flags(tensors: list[Tensor]) -> list[bool]:
    """One-element tensors as bools, with one wait for each device."""
    by_device: dict[torch.device, list[int]] = {}
    for number, tensor in enumerate(tensors):
        by_device.setdefault(tensor.device, []).append(number)
    known: dict[int, bool] = {}
    for numbers in by_device.values():
        known.update(zip(numbers, torch.stack([tensors[number] for number in numbers]).tolist(), strict=True))
    return [bool(known[number]) for number in range(len(tensors))]


def _is_copyable(parameter: NamedParameter) -> bool:
    """Whether a copy of its bits means something: not for quantized weights of other packages, meta tensors…"""
    tensor = parameter.tensor
    is_plain = type(tensor) in (Tensor, Parameter, torch.nn.Buffer) or hasattr(tensor, "to_local")
    return is_plain and not is_lazy(tensor) and tensor.layout is torch.strided and not tensor.is_meta


def _priority(parameter: NamedParameter) -> tuple[bool, bool]:
    """Buffers are small; frozen parameters seldom change."""
    return not parameter.is_buffer, not parameter.tensor.requires_grad


def _stamp(tensor: Tensor) -> _Stamp:
    return version_of(tensor), local_part(tensor).data_ptr()


def _differ(pairs: list[tuple[Tensor, Tensor]]) -> list[bool]:
    """Whether the bits of each pair differ. Bits, so that a NaN that stays is no change."""
    results: list[bool | Tensor] = []
    for after, before in pairs:
        if after.shape != before.shape or after.dtype != before.dtype or after.device != before.device:
            results.append(True)
        elif after.device.type == "cpu":
            results.append(not torch.equal(_bits(after), _bits(before)))
        else:
            results.append((_bits(after) != _bits(before)).any())
    waiting = iter(flags([result for result in results if isinstance(result, Tensor)]))
    return [next(waiting) if isinstance(result, Tensor) else result for result in results]


def _bits(tensor: Tensor) -> Tensor:
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    bits = _BITS.get(real.itemsize)
    return real if bits is None else real.view(bits)
