"""Other decode kernels that happen to be installed here, on the same inputs."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from gpu import Inputs, said

PEERS = ("flashinfer", "vllm", "sglang")
_WORKSPACE_BYTES = 128 << 20
# From here on FlashInfer's own guidance is its tensor-core kernel.
_TENSOR_CORE_GQA = 4


def installed() -> dict[str, str]:
    """Version of each that can be imported, or what importing it said; those that are not there are left out."""
    found = {}
    for name in PEERS:
        if importlib.util.find_spec(name) is None:
            continue
        try:
            found[name] = str(getattr(importlib.import_module(name), "__version__", "of unknown version"))
        except Exception as error:
            found[name] = f"cannot be imported: {said(error)}"
    return found


def flashinfer_call(inputs: Inputs, copy: int) -> Callable[[], Any]:
    """FlashInfer's batch decode with page size 1 on one set of slots, planned; BF16 caches.

    It returns the output, [batch, q_heads, head_dim] BF16.
    """
    flashinfer = importlib.import_module("flashinfer")
    shape, device, indices = inputs.shape, inputs.q.device, inputs.copies[copy]
    last_page = torch.ones(shape.batch, device=device, dtype=torch.int32)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
        torch.empty(_WORKSPACE_BYTES, device=device, dtype=torch.uint8),
        "NHD",
        use_cuda_graph=True,
        use_tensor_cores=shape.gqa >= _TENSOR_CORE_GQA,
        paged_kv_indptr_buffer=inputs.indptr.clone(),
        paged_kv_indices_buffer=indices.clone(),
        paged_kv_last_page_len_buffer=last_page.clone(),
    )
    wrapper.plan(
        inputs.indptr, indices, last_page, shape.q_heads, shape.kv_heads, shape.head_dim, 1,
        q_data_type=torch.bfloat16, kv_data_type=torch.bfloat16, sm_scale=inputs.sm_scale,
    )  # fmt: skip
    pages = tuple(inputs.caches[name].unsqueeze(1) for name in "kv")
    return lambda: wrapper.run(inputs.q, pages)
