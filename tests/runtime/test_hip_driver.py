"""The HIP driver on a stand-in whose launches the emulator executes; no AMD card was available."""

import ctypes
import gc
import os
import re
import struct
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from assay.emulator import Memory, Program
from assay.objects import read_object
from assay.runtime import load
from assay.runtime.drivers import DriverError, NoDriverError
from assay.runtime.drivers import hip as hip_driver
from tests.runtime.decode_inputs import Engine
from tests.runtime.standin.device import DeviceTensor
from tests.runtime.standin.library import Standin, compile_standin, compiler


class EmulatedLaunches:
    """Executes a stand-in's launches of real gfx1201 code, on the stand-in's own memory."""

    def __init__(self, standin):
        self.standin = standin
        self.codes: dict[int, bytes] = {}
        self.errors: list[Exception] = []
        standin.on_launch(self)

    def announce(self, kernels, row):
        """Tell the stand-in of a row's code, as the binary itself describes it."""
        code = kernels.code(row)
        (kernel,) = read_object(code, where=row.id).kernels
        arguments = [(item.offset, item.size) for item in kernel.arguments]
        number = self.standin.announce(
            code, kernel.name, kernel.arch, arguments, threads=kernel.resources.max_threads,
            static=kernel.resources.lds_static_bytes,
        )  # fmt: skip
        self.codes[number] = code

    def __call__(self, number, launch):
        try:
            self._run(Program.load(self.codes[number], where=launch.symbol, kernel=launch.symbol), launch)
        except Exception as error:  # It must not cross the C frames; the launch fails instead.
            self.errors.append(error)
            return 719
        return 0

    def _run(self, program, launch):
        memory, block, bases = Memory(), bytearray(launch.block), []
        for address, size in self.standin.blocks():
            data = np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)
            bases.append((address, size, memory.add(hex(address), data, align=256, phase=address % 256)))
        for argument in program.kernel.arguments:
            if argument.kind != "global_buffer":
                continue
            (address,) = struct.unpack_from("<Q", block, argument.offset)
            for start, size, base in bases:
                if start <= address < start + size:
                    struct.pack_into("<Q", block, argument.offset, base + address - start)
        program.launch(
            grid=tuple(launch.grid), num_warps=launch.threads[0] // 32, arguments=bytes(block), memory=memory,
            lds_bytes=launch.shared, count_transactions=False,
        )  # fmt: skip


def merge_case(batch=3, heads=2, splits=4):
    """Partial results of `batch` requests with 1, 2, 3 … splits each; one request has no keys at all."""
    rng = np.random.default_rng(7)
    lse = rng.standard_normal((batch, 1, heads, splits)).astype(np.float32)
    lse[1] = -np.inf
    return {
        "partial_out": rng.standard_normal((batch, 1, heads, splits, 64)).astype(np.float32),
        "partial_lse": lse,
        "num_kv_splits": np.arange(1, batch + 1, dtype=np.int32),
        "out": np.full((batch, 1, heads, 64), 0x7FC0, np.uint16),
        "lse": np.full((batch, 1, heads), np.nan, np.float32),
    }


def expected(case):
    """The merge in float64: outputs and LSEs."""
    splits = case["partial_lse"].shape[-1]
    lse = np.where(np.arange(splits) < case["num_kv_splits"][:, None, None, None], case["partial_lse"], -np.inf)
    top = np.where(np.isneginf(lse.max(-1)), 0, lse.max(-1)).astype(np.float64)
    weights = np.exp(lse - top[..., None])
    total = weights.sum(-1)
    out = (weights[..., None] * case["partial_out"]).sum(-2) / np.where(total == 0, 1, total)[..., None]
    with np.errstate(divide="ignore"):
        return out, top + np.log(total)


def test_the_whole_path_computes_what_the_emulator_driver_computes_bit_for_bit(hip, decode_bundle):
    facts = {"out_dtype": "bf16", "head_dim": 64, "sinks": False}
    case = merge_case()
    with load(decode_bundle, device="emulator") as emulated:
        on_host = {name: array.copy() for name, array in case.items()}
        row_id = emulated.launch("merge_splits", on_host, {}, facts)
    launches = EmulatedLaunches(hip.standin)
    with load(decode_bundle, device="hip:1") as kernels:
        launches.announce(kernels, next(row for row in kernels.rows("merge_splits") if row.id == row_id))
        there = {name: DeviceTensor(hip.standin, array, 1, bf16=name == "out") for name, array in case.items()}
        assert kernels.launch("merge_splits", there, {}, facts, stream=hip.standin.stream(1)) == row_id
        assert kernels.usage() == {row_id: 1}
    assert launches.errors == []
    for name in case:
        np.testing.assert_array_equal(there[name].numpy(), on_host[name], err_msg=name)
    out, lse = expected(case)
    found = (there["out"].numpy().astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_allclose(found, out, atol=0.002, rtol=0.02)
    np.testing.assert_allclose(there["lse"].numpy(), lse, atol=1e-5)
    assert (found[1] == 0).all()
    assert np.isneginf(there["lse"].numpy()[1]).all()


def on_device(standin, tensor):
    """A CPU torch tensor's copy in the stand-in's memory."""
    bf16 = tensor.dtype is torch.bfloat16
    return DeviceTensor(standin, (tensor.view(torch.int16) if bf16 else tensor).numpy().copy(), bf16=bf16)


@pytest.mark.parametrize("fp8", [True, False])
def test_a_decode_call_on_the_device_gives_the_emulator_drivers_bits(hip, decode_bundle, fp8):
    """Stage 1 and merge, with split counts that the driver fills in and a workspace between them."""
    engine = Engine(fp8=fp8)
    with load(decode_bundle, device="emulator") as emulated:
        wanted = emulated.decode_attention(*engine.arguments, **engine.scales, num_splits=3, sliding_window=17)
        used = emulated.usage()
        batch, heads, head_dim = engine.q.shape
        size = emulated.workspace_size(batch=batch, q_heads=heads, head_dim=head_dim, num_splits=3)
    launches = EmulatedLaunches(hip.standin)
    *tensors, scale = engine.arguments
    there = [on_device(hip.standin, tensor) for tensor in tensors]
    scales = {name: on_device(hip.standin, tensor) for name, tensor in engine.scales.items()}
    out = on_device(hip.standin, torch.full_like(engine.q, torch.nan))
    workspace = on_device(hip.standin, torch.zeros(size, dtype=torch.uint8))
    with load(decode_bundle, device="hip:0") as kernels:
        for family in kernels.families():
            for row in kernels.rows(family):
                if row.id in used:
                    launches.announce(kernels, row)
        options = {"num_splits": 3, "sliding_window": 17, "out": out, "workspace": workspace, "stream": 1}
        assert kernels.decode_attention(*there, scale, **scales, **options) is out
        assert launches.errors == []
        assert kernels.usage() == used
    np.testing.assert_array_equal(out.numpy(), wanted.view(torch.int16).numpy())
    assert [launch.stream for launch in hip.standin.launches] == [1, 1]


def test_a_kernel_that_faults_on_the_device_is_a_failed_launch(hip, decode_bundle):
    """Its output's memory is gone: the emulated access faults, the launch says so, and nothing else is touched."""
    facts = {"out_dtype": "bf16", "head_dim": 64, "sinks": False}
    launches = EmulatedLaunches(hip.standin)
    with load(decode_bundle, device="hip:0") as kernels:
        for row in kernels.rows("merge_splits"):
            launches.announce(kernels, row)
        tensors = {name: DeviceTensor(hip.standin, array, bf16=name == "out") for name, array in merge_case().items()}
        hip.standin.library.hipFree.argtypes = [ctypes.c_void_p]
        assert hip.standin.library.hipFree(tensors["out"].address) == 0
        with pytest.raises(DriverError, match=r"launching merge_splits/.*hipErrorLaunchFailure \(719\)"):
            kernels.launch("merge_splits", tensors, {}, facts)
    (error,) = launches.errors
    assert type(error).__name__ == "OutOfBoundsError"
    address = int(re.search(r"write of 2 bytes at (0x[0-9a-f]+), in no buffer", str(error))[1], 16)
    assert 0 <= address - tensors["out"].address < merge_case()["out"].nbytes


@pytest.mark.parametrize("reported", ["gfx1201", "gfx1201:sramecc+:xnack-"])
def test_the_architecture_is_the_processor_without_its_features(hip, reported):
    path = hip.bundle("a")
    hip.standin.reset(reported)
    with load(path, device="hip:0") as kernels:
        assert kernels.driver.device == ("hip", "gfx1201")
        assert [target.name for target in kernels.targets] == ["gfx1201"]


def torch_that_says(arch):
    properties = types.SimpleNamespace(gcnArchName=arch)
    return types.SimpleNamespace(
        cuda=types.SimpleNamespace(get_device_properties=lambda index: properties if index == 0 else None),
        Tensor=type("Tensor", (), {}),
        version=types.SimpleNamespace(hip="6.4"),
    )


def test_torch_tells_the_architecture_where_the_runtime_does_not(hip, monkeypatch):
    path = hip.bundle("a")
    hip.standin.reset("")
    monkeypatch.setitem(sys.modules, "torch", torch_that_says("gfx1201:xnack-"))
    with load(path, device="hip:0") as kernels:
        assert kernels.driver.device == ("hip", "gfx1201")


def test_a_rocm_builds_cuda_device_is_hip(hip, monkeypatch):
    path = hip.bundle("a")
    monkeypatch.setitem(sys.modules, "torch", torch_that_says("gfx1201"))
    with load(path, device="cuda:1") as kernels:
        assert (kernels.driver.name, kernels.driver.tensor_device) == ("hip:1", ("hip", 1))


def test_an_architecture_that_nobody_tells_is_refused(hip, monkeypatch):
    path = hip.bundle("a")
    hip.standin.reset("")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(NoDriverError, match="hip:0: the HIP runtime library does not tell its architecture: ''"):
        load(path, device="hip:0")


def test_a_runtime_without_that_properties_function_asks_torch(hip, tmp_path, monkeypatch):
    path = compile_standin("hip", tmp_path / "older.so", without=("hipGetDevicePropertiesR0600",))
    Standin("hip", path).reset("gfx1201")
    monkeypatch.setattr("assay.runtime.drivers.hip.LIBRARY_NAMES", (str(path),))
    monkeypatch.setitem(sys.modules, "torch", torch_that_says("gfx1201"))
    with load(hip.bundle("a"), device="hip:0") as kernels:
        assert kernels.driver.device == ("hip", "gfx1201")


@pytest.mark.parametrize(("reported", "limit"), [(32_768, 32_768), (65_536, 65_536), (163_840, 65_536)])
def test_a_workgroup_has_at_most_64_kib_whatever_the_driver_reports(hip, reported, limit):
    path = hip.bundle("a")
    hip.standin.reset("gfx1201", shared_limit=reported)
    with load(path, device="hip:0") as kernels:
        assert kernels.driver.lds_limit == limit


@pytest.mark.parametrize("before", [0, 1])
def test_the_current_device_of_the_callers_thread_is_the_same_after_everything(hip, before):
    path, tensors = hip.bundle("a"), hip.tensors(1)
    hip.standin.current = before
    seen = []
    kernels = load(path, device="hip:1")
    for act in (
        lambda: hip.launch(kernels, "a", tensors),
        lambda: hip.launch(kernels, "a", tensors),
        lambda: kernels.driver.read(kernels.driver.filled_i32(1, 4), 16),
        kernels.driver.synchronize,
        kernels.close,
    ):
        act()
        seen.append(hip.standin.current)
    assert seen == [before] * 5
    assert [launch.device for launch in hip.standin.launches] == [1, 1]


def test_a_failed_call_puts_the_callers_device_back_too(hip):
    with load(hip.bundle("a"), device="hip:1") as kernels:
        for call in ("hipModuleLoadData", "hipModuleLaunchKernel"):
            hip.standin.fail(call, 719)
            with pytest.raises(DriverError, match=call):
                hip.launch(kernels, "a", hip.tensors(1))
            assert hip.standin.current == 0


def test_a_device_that_cannot_be_put_back_is_an_error_that_says_so(hip):
    with load(hip.bundle("a"), device="hip:1") as kernels:
        kernels.preload()
        hip.standin.fail("hipSetDevice", 101, nth=2)
        with pytest.raises(DriverError, match=r"launching copy/a .* back to device 0: hipSetDevice failed"):
            hip.launch(kernels, "a", hip.tensors(1))


def test_an_error_that_was_raised_is_not_left_for_the_frameworks_next_check(hip):
    """hipGetLastError of the thread: torch asks it after every launch of its own."""
    with load(hip.bundle("a"), device="hip:0") as kernels:
        for call in ("hipModuleLoadData", "hipModuleLaunchKernel"):
            hip.standin.fail(call, 719)
            with pytest.raises(DriverError, match=call):
                hip.launch(kernels, "a", hip.tensors())
            assert hip.standin.library.standin_last_error() == 0
        hip.standin.fail("hipModuleUnload", 400)
    assert hip.standin.library.standin_last_error() == 0


def test_the_image_lives_as_long_as_its_module(hip):
    """The runtime reads it again; the stand-in compares it at each launch."""
    tensors = hip.tensors()
    with load(hip.bundle("a"), device="hip:0") as kernels:
        kernels.preload()
        gc.collect()
        litter = [bytes([255]) * size for size in range(200, 400) for _ in range(20)]
        hip.launch(kernels, "a", tensors)
        assert len(litter) == 4000
    assert [launch.symbol for launch in hip.standin.launches] == ["copy_a"]


def test_a_grid_of_four_billion_work_items_is_the_drivers_to_refuse(hip):
    with load(hip.bundle("a", grid=(("batch", "heads"),)), device="hip:0") as kernels:
        function = kernels._executor.function(kernels.rows("copy")[0])
        block = kernels.driver.argument_block(32)
        kernels.driver.launch(function, (2**25 - 1, 1, 1), block, 0)
        with pytest.raises(DriverError, match=r"hipErrorInvalidConfiguration \(9\)"):
            kernels.driver.launch(function, (2**25, 1, 1), block, 0)


def test_a_runtime_that_is_mapped_already_is_the_one_that_is_used(hip, tmp_path):
    """A framework's own copy: streams of one copy mean nothing to another one."""
    framework, system = tmp_path / "framework", tmp_path / "system"
    for folder in (framework, system):
        folder.mkdir()
    compile_standin("hip", framework / "libamdhip64.so")
    compile_standin("hip", system / "libamdhip64.so.6")
    script = """
import ctypes, sys
from assay.runtime import load
used = ctypes.CDLL(sys.argv[1])
used.standin_device(b"gfx1201", 65536, 32)
with load(sys.argv[2], device="hip:0") as kernels:
    print(kernels.driver.device, used.standin_calls() > 3)
"""
    for order in ("framework", "system"):
        loaded = {"framework": framework / "libamdhip64.so", "system": system / "libamdhip64.so.6"}[order]
        environment = {**os.environ, "LD_LIBRARY_PATH": str(system)}
        command = [sys.executable, "-c", script, str(loaded), str(hip.bundle("a"))]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert (done.stdout, done.stderr) == ("('hip', 'gfx1201') True\n", "")


def test_numbers_are_those_of_the_public_header(tmp_path):
    """hip_runtime_api.h of ROCm 7 comes with Triton."""
    triton = pytest.importorskip("triton")
    header = Path(triton.__file__).parent / "backends/amd/include"
    names = {
        "sizeof(hipDeviceProp_t)": hip_driver.PROPERTIES_BYTES,
        "offsetof(hipDeviceProp_t, gcnArchName)": hip_driver.ARCH_OFFSET,
        "sizeof(((hipDeviceProp_t *)0)->gcnArchName)": hip_driver.ARCH_BYTES,
        "hipDeviceAttributeMultiprocessorCount": hip_driver.MULTIPROCESSORS,
        "hipDeviceAttributeMaxSharedMemoryPerBlock": hip_driver.SHARED_PER_BLOCK,
        "HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK": 0,
        "HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES": 1,
        "hipErrorNoDevice": 100,
        "(long)HIP_LAUNCH_PARAM_BUFFER_POINTER": hip_driver.HipDriver._markers[0],
        "(long)HIP_LAUNCH_PARAM_BUFFER_SIZE": hip_driver.HipDriver._markers[1],
        "(long)HIP_LAUNCH_PARAM_END": hip_driver.HipDriver._markers[2],
    }
    source = "#define __HIP_PLATFORM_AMD__\n#include <stddef.h>\n#include <hip/hip_runtime_api.h>\n" + "".join(
        f'_Static_assert({name} == {value}, "{name}");\n' for name, value in names.items()
    )
    # The header gives the struct and its function the names of that version.
    source += "hipError_t (*known)(hipDeviceProp_tR0600 *, int) = hipGetDevicePropertiesR0600;\n"
    (tmp_path / "numbers.c").write_text(source)
    command = [compiler(), f"-I{header}", "-fsyntax-only", str(tmp_path / "numbers.c")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
