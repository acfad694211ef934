"""The CUDA driver on a stand-in: shared memory on request, contexts, arguments, what the assembler says."""

import ctypes
import subprocess
from pathlib import Path

import pytest

from assay.runtime import load
from assay.runtime.drivers import DriverError, MismatchError
from assay.runtime.drivers import cuda as cuda_driver
from tests.runtime.standin.device import LAYOUT, Bench
from tests.runtime.standin.library import Standin, compile_standin, compiler

OTHER_LIBRARYS = 8  # A context that is no device's primary one.


@pytest.mark.parametrize("lds_bytes", [49_151, 49_152, 49_153, 101_376])
def test_shared_memory_from_48_kib_on_is_asked_for_and_launches(cuda, lds_bytes):
    """Exactly 48 KiB needs asking for as well."""
    with load(cuda.bundle("a", lds_bytes=lds_bytes), device="cuda:0") as kernels:
        cuda.launch(kernels, "a", cuda.tensors())
    assert [launch.shared for launch in cuda.standin.launches] == [lds_bytes]
    assert cuda.standin.count("cuFuncSetAttribute") == (lds_bytes >= 49_152)


@pytest.mark.parametrize("static", [1023, 1024, 1025])
def test_static_shared_memory_counts_towards_48_kib(cuda, static):
    with load(cuda.bundle("a", lds_bytes=48_128, told={"static": static}), device="cuda:0") as kernels:
        cuda.launch(kernels, "a", cuda.tensors())
    assert [launch.shared for launch in cuda.standin.launches] == [48_128]
    assert cuda.standin.count("cuFuncSetAttribute") == (static >= 1024)


def test_large_shared_memory_is_asked_for_on_each_device_of_the_process(cuda):
    path = cuda.bundle("a", lds_bytes=90_000)
    for ordinal in (0, 1):
        with load(path, device=f"cuda:{ordinal}") as kernels:
            cuda.launch(kernels, "a", cuda.tensors(ordinal))
    assert [(launch.device, launch.shared) for launch in cuda.standin.launches] == [(0, 90_000), (1, 90_000)]
    assert cuda.standin.count("cuFuncSetAttribute") == 2


def test_a_refused_request_for_shared_memory_fails_the_load(cuda):
    cuda_bundle = cuda.bundle("a", lds_bytes=90_000)
    with load(cuda_bundle, device="cuda:0") as kernels:
        cuda.standin.fail("cuFuncSetAttribute", 1)
        with pytest.raises(
            DriverError, match=r"copy/a .*cuFuncSetAttribute failed with CUDA_ERROR_INVALID_VALUE \(1\)"
        ):
            cuda.launch(kernels, "a", cuda.tensors())
        assert (cuda.standin.launches, cuda.standin.live_modules) == ([], 0)


@pytest.mark.parametrize(
    "built",
    [LAYOUT[:3], (*LAYOUT, (32, 8)), ((0, 8), (8, 8), (16, 8), (24, 8)), ((0, 8), (8, 8), (20, 4), (24, 8)), ()],
    ids=["one less", "one more", "another size", "another offset", "none"],
)
def test_arguments_that_the_binary_has_otherwise_are_refused_before_a_launch(cuda, built):
    with load(cuda.bundle("a", told={"arguments": built}), device="cuda:0") as kernels:
        with pytest.raises(MismatchError) as caught:
            cuda.launch(kernels, "a", cuda.tensors())
        assert str(caught.value) == (
            f"copy/a (copy_a): the kernel's arguments (offset, size) are {tuple(built)}, its row says {LAYOUT}"
        )
        assert (cuda.standin.launches, cuda.standin.live_modules) == ([], 0)


def test_a_driver_that_cannot_tell_arguments_loads_all_the_same(factory, tmp_path, monkeypatch):
    """cuFuncGetParamInfo came with CUDA 12.4."""
    path = compile_standin("cuda", tmp_path / "older.so", without=("cuFuncGetParamInfo",))
    monkeypatch.setattr("assay.runtime.drivers.cuda.LIBRARY_NAMES", (str(path),))
    older = Bench(Standin("cuda", path), factory, tmp_path)
    with load(older.bundle("a"), device="cuda:0") as kernels:
        older.launch(kernels, "a", older.tensors())
    assert [launch.symbol for launch in older.standin.launches] == ["copy_a"]


def test_what_the_driver_writes_about_an_image_is_in_the_message(cuda):
    path = cuda.bundle("a", told={"arch": "sm_90"})
    with load(path, device="cuda:0") as kernels, pytest.raises(DriverError) as caught:
        cuda.launch(kernels, "a", cuda.tensors())
    assert (caught.value.code, caught.value.name) == (209, "CUDA_ERROR_NO_BINARY_FOR_GPU")
    assert "device kernel image is of no use here" in str(caught.value)


@pytest.mark.parametrize("before", [-1, 0, 1, OTHER_LIBRARYS])
def test_the_context_of_the_callers_thread_is_the_same_after_everything(cuda, before):
    """No context, the own one, another device's, or one that another library made."""
    path, tensors = cuda.bundle("a"), cuda.tensors()
    cuda.standin.library.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 1)
    cuda.standin.current = before
    seen = []
    kernels = load(path, device="cuda:0")
    for act in (
        lambda: cuda.launch(kernels, "a", tensors),
        lambda: cuda.launch(kernels, "a", tensors),
        lambda: kernels.driver.read(kernels.driver.filled_i32(1, 4), 16),
        kernels.driver.synchronize,
        kernels.close,
    ):
        act()
        seen.append((cuda.standin.current, cuda.standin.library.standin_depth()))
    assert seen == [(before, 0 if before < 0 else 1)] * 5
    assert [launch.device for launch in cuda.standin.launches] == [0, 0]


def test_a_failed_call_puts_the_callers_context_back_too(cuda):
    path, tensors = cuda.bundle("a", "b"), cuda.tensors()
    with load(path, device="cuda:0") as kernels:
        for call in ("cuModuleLoadDataEx", "cuLaunchKernel"):
            cuda.standin.fail(call, 719)
            with pytest.raises(DriverError, match=call):
                cuda.launch(kernels, "b", tensors)
            assert (cuda.standin.current, cuda.standin.library.standin_depth()) == (-1, 0)


def test_a_launch_in_the_own_context_changes_no_context(cuda):
    with load(cuda.bundle("a"), device="cuda:0") as kernels:
        cuda.standin.current = 0
        kernels.preload()
        pushes = cuda.standin.count("cuCtxPushCurrent_v2")
        cuda.launch(kernels, "a", cuda.tensors())
        mine = cuda.standin.count("cuCtxPushCurrent_v2") - pushes
    # Two of them are the test's own, for the tensors.
    assert mine == 2


def test_the_primary_context_is_given_back_when_the_kernels_are_closed(cuda):
    references = cuda.standin.library.standin_references
    with load(cuda.bundle("a"), device="cuda:1") as kernels:
        assert (references(0), references(1)) == (0, 1)
        with load(cuda.bundle("b"), device="cuda:1"):
            assert references(1) == 2
        cuda.launch(kernels, "a", cuda.tensors(1))
    assert references(1) == 0


def test_numbers_are_those_of_the_public_header(tmp_path):
    """cuda.h comes with Triton."""
    triton = pytest.importorskip("triton")
    header = Path(triton.__file__).parent / "backends/nvidia/include"
    names = {
        "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT": cuda_driver.MULTIPROCESSORS,
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": cuda_driver.MAJOR,
        "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": cuda_driver.MINOR,
        "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": cuda_driver.OPTIN_SHARED,
        "CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK": 0,
        "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES": 1,
        "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": cuda_driver.FUNCTION_MAX_DYNAMIC,
        "CU_JIT_ERROR_LOG_BUFFER": cuda_driver.ERROR_LOG,
        "CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES": cuda_driver.ERROR_LOG_BYTES,
        "CUDA_ERROR_NO_DEVICE": 100,
        "CU_LAUNCH_PARAM_BUFFER_POINTER": cuda_driver.CudaDriver._markers[0],
        "CU_LAUNCH_PARAM_BUFFER_SIZE": cuda_driver.CudaDriver._markers[1],
        "CU_LAUNCH_PARAM_END": cuda_driver.CudaDriver._markers[2],
    }
    source = "#include <cuda.h>\n" + "".join(
        f'_Static_assert((long)({name}) == {value}, "{name}");\n' for name, value in names.items()
    )
    (tmp_path / "numbers.c").write_text(source)
    command = [compiler(), f"-I{header}", "-fsyntax-only", str(tmp_path / "numbers.c")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


DEPENDENT = {"num_stages": 2, "programmatic_dependent_launch": True}


def _launched_both_ways(bench, path):
    """The same launch from Python and from C."""
    tensors = bench.tensors()
    with load(path, device="cuda:0") as kernels:
        bench.launch(kernels, "a", tensors)
        executor = kernels._executor
        prepared = executor.prepare("copy", executor.views("copy", tensors), {"n": 3}, {"pick": "a"})
        prepared.bind([tensors[name].address for name in prepared.pointer_names], [3])(0)
    first, second = bench.standin.launches
    seen = [(x.block, [*x.grid], [*x.threads], x.shared, x.stream) for x in (first, second)]
    assert seen[0] == seen[1]


@pytest.mark.parametrize("launch", [DEPENDENT, {**DEPENDENT, "programmatic_dependent_launch": False}])
def test_a_kernel_that_waits_by_itself_may_start_before_the_one_before_it_ends(cuda, launch):
    cuda.standin.current = 0
    _launched_both_ways(cuda, cuda.bundle("a", launch=launch))
    early = launch["programmatic_dependent_launch"]
    assert (cuda.standin.count("cuLaunchKernelEx"), cuda.standin.count("cuLaunchKernel")) == (
        (2, 0) if early else (0, 2)
    )


def test_a_driver_without_dependent_launches_starts_such_kernels_in_order(factory, tmp_path, monkeypatch):
    """cuLaunchKernelEx came with CUDA 11.8."""
    path = compile_standin("cuda", tmp_path / "older.so", without=("cuLaunchKernelEx",))
    monkeypatch.setattr("assay.runtime.drivers.cuda.LIBRARY_NAMES", (str(path),))
    older = Bench(Standin("cuda", path), factory, tmp_path)
    _launched_both_ways(older, older.bundle("a", launch=DEPENDENT))
    assert older.standin.count("cuLaunchKernel") == 2


def test_the_driver_is_told_which_launches_are_dependent(cuda):
    """A status of cuLaunchKernelEx is an error like any other."""
    with load(cuda.bundle("a", launch=DEPENDENT), device="cuda:0") as kernels:
        cuda.standin.fail("cuLaunchKernelEx", 719)
        with pytest.raises(DriverError, match="719"):
            cuda.launch(kernels, "a", cuda.tensors())
