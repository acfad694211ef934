"""What only a real driver shows: shared memory at its limits, streams, graphs, threads, forks, several GPUs."""

import os
import struct
import subprocess
import sys
import threading

import pytest
import torch

import assay.runtime
from assay.runtime import ArgumentError
from assay.runtime.drivers.function import Wanted
from tests.runtime.decode_inputs import Engine, assert_close


def on_gpu(engine, device="cuda:0"):
    """Arguments and scales of a decode call, on the GPU."""
    arguments = [item.to(device) if isinstance(item, torch.Tensor) else item for item in engine.arguments]
    return arguments, {name: scale.to(device) for name, scale in engine.scales.items()}


@pytest.mark.parametrize("fp8", [True, False])
@pytest.mark.parametrize("window", [None, 17])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_a_decode_call_is_attention(kernels, fp8, window, head_dim):
    engine = Engine(fp8=fp8, head_dim=head_dim, gqa=4, lengths=(700, 1, 0, 33))
    arguments, scales = on_gpu(engine)
    sinks = torch.linspace(-1, 1, engine.q.shape[1])
    lse = torch.empty(engine.q.shape[:2], device="cuda")
    out = kernels.decode_attention(*arguments, **scales, sliding_window=window, sinks=sinks.cuda(), lse=lse)
    expected, expected_lse = engine.attention(window, sinks)
    assert_close(out.cpu(), expected)
    torch.testing.assert_close(lse.cpu().double(), expected_lse, atol=0.002, rtol=0.02)


def test_row_scales_over_ten_orders_of_magnitude_in_one_request(kernels):
    engine = Engine(gqa=4, head_dim=128, lengths=(300, 40))
    spread = torch.logspace(-12, -2, engine.k.shape[0], dtype=torch.float64)[torch.randperm(engine.k.shape[0])]
    engine.scales = {name: (spread[:, None].expand(-1, 2)).float().contiguous() for name in engine.scales}
    arguments, scales = on_gpu(engine)
    assert_close(kernels.decode_attention(*arguments, **scales).cpu(), engine.attention()[0])


def row_of(kernels):
    return kernels.rows("merge_splits")[0]


@pytest.mark.parametrize("lds_bytes", [49151, 49152, 49153, 141312, 232448])
def test_shared_memory_up_to_the_limit_is_allowed(kernels, lds_bytes):
    row = row_of(kernels)
    arguments = tuple((a.offset, a.size) for a in row.arguments)
    wanted = Wanted("test", row.symbol, lds_bytes, row.num_warps * row.wavefront_size, arguments)
    function = kernels.driver.load(kernels.code(row), wanted)
    block = kernels.driver.argument_block(arguments[-1][0] + arguments[-1][1])
    # No workgroup has anything to do, but each must be given its shared memory.
    head_dim = kernels.variant(row.id).problem["head_dim"]
    tensors = {
        "partial_out": torch.zeros(1, 1, 1, head_dim, device="cuda"),
        "partial_lse": torch.zeros(1, 1, 1, device="cuda"),
        "num_kv_splits": torch.ones(1, dtype=torch.int32, device="cuda"),
        "sinks": torch.zeros(1, device="cuda"),
        "out": torch.full((1, 1, head_dim), 7, dtype=torch.bfloat16, device="cuda"),
        "lse": torch.full((1, 1), 7.0, device="cuda"),
    }
    for argument in row.arguments:
        if argument.kind == "pointer":
            struct.pack_into("<Q", block.data, argument.offset, tensors[argument.name].data_ptr())
    torch.cuda.synchronize()
    kernels.driver.launch(function, (1, 1, 1), block, 0)
    kernels.driver.synchronize()
    assert not tensors["out"].any()


def test_a_call_waits_for_what_its_stream_did_before(kernels):
    engine = Engine(gqa=4, head_dim=128, lengths=(500,) * 8)
    arguments, scales = on_gpu(engine)
    expected = kernels.decode_attention(*arguments, **scales, num_splits=4).clone()
    late = torch.zeros_like(arguments[0])
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(arguments[0])
        out = kernels.decode_attention(late, *arguments[1:], **scales, num_splits=4)
        copied = out + 0
    stream.synchronize()
    assert torch.equal(copied, expected)
    # The same stream, named by the caller while another is current.
    late.zero_()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(arguments[0])
    out = kernels.decode_attention(late, *arguments[1:], **scales, num_splits=4, stream=stream)
    stream.synchronize()
    assert torch.equal(out, expected)


def test_a_captured_call_follows_its_tensors(kernels):
    engine, other = Engine(gqa=4, head_dim=128, lengths=(300, 7)), Engine(gqa=4, head_dim=128, lengths=(300, 7), seed=3)
    arguments, scales = on_gpu(engine)
    kernels.preload(num_splits=8, max_batch=2)
    out = torch.empty_like(arguments[0])
    size = kernels.workspace_size(batch=2, q_heads=8, head_dim=128, num_splits=8)
    workspace = torch.empty(size, dtype=torch.uint8, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernels.decode_attention(*arguments, **scales, num_splits=8, out=out, workspace=workspace)
    graph.replay()
    assert_close(out.cpu(), engine.attention()[0])
    fresh, fresh_scales = on_gpu(other)
    for held, new in zip(arguments[:-1], fresh[:-1], strict=True):
        held.copy_(new)
    for name, scale in scales.items():
        scale.copy_(fresh_scales[name])
    graph.replay()
    assert_close(out.cpu(), other.attention()[0])


def test_many_threads_at_once_load_once_and_compute_right(bundle):
    engine = Engine(gqa=4, head_dim=128, lengths=(300, 7))
    arguments, scales = on_gpu(engine)
    expected = engine.attention()[0]
    for _ in range(5):
        with assay.runtime.load(bundle, device="cuda:0") as kernels:
            results, barrier = [], threading.Barrier(16)

            def work(kernels=kernels, results=results, barrier=barrier):
                barrier.wait()
                stream = torch.cuda.Stream()
                with torch.cuda.stream(stream):
                    results.append(kernels.decode_attention(*arguments, **scales))
                stream.synchronize()

            threads = [threading.Thread(target=work) for _ in range(16)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            assert len(results) == 16
            for result in results:
                assert_close(result.cpu(), expected)
            assert sorted(kernels.usage().values()) == [16, 16]


def test_a_bad_call_leaves_no_error_for_the_next(kernels):
    engine = Engine(gqa=4, head_dim=128, lengths=(300,))
    arguments, scales = on_gpu(engine)
    with pytest.raises(ArgumentError, match="on cpu:0"):
        kernels.decode_attention(engine.q, *arguments[1:], **scales)
    with pytest.raises(ArgumentError):
        kernels.decode_attention(*arguments, **scales, sliding_window=0)
    torch.cuda.synchronize()
    assert_close(kernels.decode_attention(*arguments, **scales).cpu(), engine.attention()[0])


@pytest.mark.parametrize("pure", ["0", "1"])
def test_both_launch_paths_give_the_same_bits(bundle, pure):
    code = f"""
import torch, assay.runtime
from assay.runtime import fast
from tests.runtime.decode_inputs import Engine
from tests.device.test_cuda import on_gpu
kernels = assay.runtime.load({str(bundle)!r}, device="cuda:0")
arguments, scales = on_gpu(Engine(gqa=4, head_dim=128, lengths=(300, 7)))
for _ in range(3):
    out = kernels.decode_attention(*arguments, **scales, num_splits=4)
assert (fast.module is None) == ({pure!r} == "1")
print(hash(tuple(out.float().flatten().tolist())))
"""
    environment = {**os.environ, "ASSAY_PURE_PYTHON": pure}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kernels = assay.runtime.load(bundle, device="cuda:0")
    arguments, scales = on_gpu(Engine(gqa=4, head_dim=128, lengths=(300, 7)))
    out = kernels.decode_attention(*arguments, **scales, num_splits=4)
    assert int(done.stdout) == hash(tuple(out.float().flatten().tolist()))


def test_a_fork_after_load_is_refused_by_name(kernels):
    arguments, scales = on_gpu(Engine(gqa=4, head_dim=128, lengths=(30,)))
    kernels.decode_attention(*arguments, **scales)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kernels.driver.check_usable()
            said = "nothing"
        except assay.runtime.AssayRuntimeError as error:
            said = type(error).__name__
        os.write(writer, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"ForkedError"
    torch.cuda.synchronize()


def test_leaving_with_everything_open_is_silent(bundle):
    code = f"""
import torch, assay.runtime
from tests.runtime.decode_inputs import Engine
from tests.device.test_cuda import on_gpu
kernels = assay.runtime.load({str(bundle)!r}, device="cuda:0")
arguments, scales = on_gpu(Engine(gqa=4, head_dim=128, lengths=(300, 7)))
kernels.decode_attention(*arguments, **scales)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_cupy_like_and_dlpack_arrays_are_read(kernels):
    cupy = pytest.importorskip("cupy")
    engine = Engine(gqa=4, head_dim=128, lengths=(300, 7))
    arguments, scales = on_gpu(engine)
    expected = kernels.decode_attention(*arguments, **scales, num_splits=4)
    codes = [cupy.asarray(cache) for cache in arguments[1:3]]
    rest = [cupy.asarray(item) for item in arguments[3:6]]
    held = {name: cupy.asarray(scale) for name, scale in scales.items()}
    out = kernels.decode_attention(arguments[0], *codes, *rest, arguments[6], **held, num_splits=4)
    torch.cuda.synchronize()
    assert torch.equal(out, expected)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_in_any_order(bundle):
    loaded = [assay.runtime.load(bundle, device=f"cuda:{ordinal}") for ordinal in (0, 1)]
    engine = Engine(gqa=4, head_dim=128, lengths=(300, 7))
    calls = [on_gpu(engine, f"cuda:{ordinal}") for ordinal in (0, 1)]
    expected = engine.attention()[0]
    for ordinal in (0, 1, 0, 1, 1, 0):
        arguments, scales = calls[ordinal]
        out = loaded[ordinal].decode_attention(*arguments, **scales)
        assert out.device.index == ordinal
        assert torch.cuda.current_device() == 0
        assert_close(out.cpu(), expected)
    with pytest.raises(ArgumentError, match="on cuda:1; allowed: cuda:0"):
        loaded[0].decode_attention(calls[0][0][0], calls[1][0][1], *calls[0][0][2:], **calls[0][1])
