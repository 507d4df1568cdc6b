"""The Triton kernels agree with the statistics of the CPU; where there is no GPU, Triton interprets them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

CODE = """
import numpy as np, torch
from tests.recording.statistics.test_summary import STRANGE, Summary
from cutaway.recording.statistics import device as device_module, triton_launch

if not torch.cuda.is_available():  # main memory plays the device
    device_module._device_context = lambda device: device_module.nullcontext()
    class Summary(Summary):
        on_host = frozenset()
        def _device(self, device):
            found = super()._device(device)
            found._kernels = triton_launch
            return found
from cutaway.recording.statistics.summary import Summary as OnHost

triton_launch.ROWS_PER_PROGRAM = 25
rng = np.random.default_rng(0)
made = torch.from_numpy(rng.normal(3, 5, (10, 6, 48)))
made[made.abs() < 1] = 0
cases = [(made.to(dtype), 0, 2) for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.uint16)]
cases += [(made.float()[..., :47].contiguous(), 0, 2), (made.float(), 0, 1), (made.float(), 1, 0)]
cases += [(made.float().mT, 0, 1), (made.float()[:, ::2], 0, 2), (made.float(), None, 0), (made.float(), None, None)]
cases += [(made.float().movedim(2, 1).contiguous().movedim(1, 2), 0, 2), (made.float() + 1e5, 0, 2)]
cases += [(torch.from_numpy(rng.normal(size=n)).float(), None, None) for n in (1, 9, 1025, 20_001)]
cases += [(torch.from_numpy(rng.normal(size=(3, 9000))).bfloat16(), 0, 1), (made.float()[0].expand(5, 6, 48), 0, 2)]
for strange in STRANGE.values():
    broken = made.float().clone()
    broken[7, 3, 5 : 5 + len(strange)] = torch.tensor(strange)
    cases.append((broken, 0, 2))
for level in ("core", "full"):
    here, there = OnHost(level), Summary(level)
    for tensor, batch_dim, unit_dim in cases:
        tensor_there = tensor.cuda() if torch.cuda.is_available() else tensor
        here.add(tensor, batch_dim=batch_dim, unit_dim=unit_dim)
        there.add(tensor_there, batch_dim=batch_dim, unit_dim=unit_dim, is_stable=True)
    expected, found = here.matrix(), there.matrix()
    assert not device_module._FAILED
    for number, (tensor, *dims) in enumerate(cases):
        about = f"{level} {number} {tensor.dtype} {tuple(tensor.shape)} {dims}"
        np.testing.assert_allclose(found[number], expected[number], rtol=1e-4, atol=1e-5, err_msg=about)
        left, right = here.arrays(number), there.arrays(number)
        assert left.keys() == right.keys(), about
        for name in left:
            np.testing.assert_allclose(right[name], left[name], rtol=1e-4, atol=1e-5, err_msg=f"{name} {about}")
"""


def test_kernels_agree_with_the_cpu() -> None:
    pytest.importorskip("triton")
    settings = {} if torch.cuda.is_available() else {"TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", CODE], check=True, env={**os.environ, **settings})
