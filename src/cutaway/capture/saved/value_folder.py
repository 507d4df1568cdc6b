"""Saves values to disk, one `.safetensors` file each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from cutaway.capture.tensors.raw_bytes import compact
from cutaway.core.errors import InputError
from cutaway.core.events import Handle
from cutaway.core.safetensors import Entry, header


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value in a `.safetensors` file; `load()` memory-maps it."""

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    expanded: tuple[int, ...] = ()
    """The shape to which `expand` repeats it; empty if nothing is repeated."""

    def load(self) -> Tensor:
        if 0 in self.shape:
            return torch.empty(self.shape, dtype=self.dtype, device="cpu")
        size = self.offset + torch.Size(self.shape).numel() * self.dtype.itemsize
        data = torch.from_file(str(self.path), shared=False, size=size, dtype=torch.uint8)[self.offset :]
        if self.offset % self.dtype.itemsize:
            data = data.clone()
        value = data.view(self.dtype).reshape(self.shape)
        return value.expand(self.expanded) if self.expanded else value


class FolderSink:
    """Writes each value to its own `.safetensors` file: to a temporary file first, then renamed.

    It never overwrites: a folder with values of an earlier trace raises an error.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.glob("*.safetensors")):
            raise InputError(f"{folder} already contains values of a trace: use another folder for keep=.")
        self.folder = folder

    def keep(self, index: int, tensor: Tensor) -> Handle:
        if tensor.is_quantized:
            raise InputError(f"a {tensor.dtype} value cannot be saved to a folder: dequantize it with transform=.")
        try:
            value, expanded = compact(tensor)
        except InputError as error:
            raise InputError(f"{error} Use transform= to convert values before they are saved to a folder.") from error
        text = header([Entry("value", value.dtype, value.shape, 0, value.nbytes)])
        text += b" " * (-len(text) % 8)
        path = self.folder / f"{index:06d}.safetensors"
        temporary = path.with_suffix(".part")
        with open(temporary, "wb") as file:
            file.write(len(text).to_bytes(8, "little"))
            file.write(text)
            file.write(value.data)
        temporary.rename(path)
        return StoredValue(path, 8 + len(text), value.shape, tensor.dtype, expanded)

    def close(self) -> None:
        pass
