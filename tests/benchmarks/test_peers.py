"""Other decode kernels: what is installed, and how FlashInfer is called."""

import sys
from types import ModuleType

import pytest

from .calls import small_inputs

torch = pytest.importorskip("torch")


@pytest.fixture
def peers(monkeypatch):
    import gpu

    monkeypatch.setattr(gpu, "DEVICE", "cpu")
    import peers

    return peers


def write(folder, name, text):
    (folder / f"{name}.py").write_text(text)


def test_what_is_not_there_is_left_out_and_what_breaks_says_how(peers, tmp_path, monkeypatch):
    write(tmp_path, "peer_whole", "__version__ = '1.2'")
    write(tmp_path, "peer_broken", "raise OSError('no libpeer.so')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(peers, "PEERS", ("peer_whole", "peer_broken", "peer_absent"))
    found = peers.installed()
    assert found == {"peer_whole": "1.2", "peer_broken": "cannot be imported: OSError: no libpeer.so"}


def test_flashinfer_gets_one_page_a_slot(peers, monkeypatch):
    seen = {}

    class Wrapper:
        def __init__(self, workspace, layout, **options):
            seen.update(options, layout=layout, workspace=workspace)

        def plan(self, *given, **options):
            seen.update(options, planned=given)

        def run(self, q, pages):
            return q, pages

    module = ModuleType("flashinfer")
    module.BatchDecodeWithPagedKVCacheWrapper = Wrapper
    monkeypatch.setitem(sys.modules, "flashinfer", module)
    inputs = small_inputs(fp8=False, batch=3)
    q, pages = peers.flashinfer_call(inputs, copy=1)()
    indptr, indices, last_page, *sizes = seen["planned"]
    assert q is inputs.q
    assert [page.shape for page in pages] == [(3 * 64 * 2, 1, 2, 64)] * 2
    assert all(page.data_ptr() == inputs.caches[name].data_ptr() for page, name in zip(pages, "kv", strict=True))
    assert indptr is inputs.indptr
    assert indices is inputs.copies[1]
    assert last_page.tolist() == [1, 1, 1]
    assert sizes == [8, 2, 64, 1]
    assert (seen["layout"], seen["use_cuda_graph"], seen["use_tensor_cores"]) == ("NHD", True, True)
    assert torch.equal(seen["paged_kv_indices_buffer"], indices)
    assert (seen["q_data_type"], seen["kv_data_type"], seen["sm_scale"]) == (torch.bfloat16, torch.bfloat16, 64**-0.5)
