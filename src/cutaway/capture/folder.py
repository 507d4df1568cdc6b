"""Values on disk: one `.safetensors` file each, readable with stock tools."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cutaway.core.errors import InputError
from cutaway.core.events import Handle


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value in a `.safetensors` file; `load()` maps it into memory."""

    path: Path
    offset: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    def load(self) -> Tensor:
        if 0 in self.shape:
            return torch.empty(self.shape, dtype=self.dtype)
        size = self.offset + torch.Size(self.shape).numel() * self.dtype.itemsize
        raw = torch.from_file(str(self.path), shared=False, size=size, dtype=torch.uint8)[self.offset :]
        if self.offset % self.dtype.itemsize:
            raw = raw.clone()
        return raw.view(self.dtype).reshape(self.shape)


_DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
    torch.bool: "BOOL", torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.complex64: "C64",
}  # fmt: skip


class FolderSink:
    """Writes each value into a `.safetensors` file of its own, beside and then renamed.

    A folder that holds values of an earlier trace is refused, never overwritten.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.glob("*.safetensors")):
            raise InputError(f"{folder} already holds values of a trace: give keep= another folder.")
        self.folder = folder

    def keep(self, index: int, tensor: Tensor) -> Handle:
        name = _DTYPES.get(tensor.dtype)
        if name is None or tensor.layout is not torch.strided or tensor.is_meta:
            raise InputError(f"a {tensor.dtype} {tensor.layout} value cannot be written to disk: use transform=.")
        data = tensor.to("cpu").contiguous()
        raw = data.reshape(-1).view(torch.uint8).numpy() if data.numel() else np.empty(0, np.uint8)
        header = json.dumps(
            {"value": {"dtype": name, "shape": list(data.shape), "data_offsets": [0, raw.nbytes]}}
        ).encode()
        header += b" " * (-len(header) % 8)
        path = self.folder / f"{index:06d}.safetensors"
        beside = path.with_suffix(".part")
        with open(beside, "wb") as file:
            file.write(len(header).to_bytes(8, "little"))
            file.write(header)
            file.write(raw.data)
        beside.rename(path)
        return StoredValue(path, 8 + len(header), tuple(data.shape), data.dtype)

    def close(self) -> None:
        pass
