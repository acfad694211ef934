"""What goes wrong in a driver is said by name, and nothing is launched after it.  Both vendors, on stand-ins."""

import re

import pytest

from assay.runtime import ArchitectureError, ArgumentError, fast, load
from assay.runtime.drivers import ClosedError, DriverError, MismatchError, NoDriverError
from assay.runtime.recipes import Address, FastLaunch
from tests.runtime.standin.device import copy_row, write_copy_bundle
from tests.runtime.standin.library import code_object, compile_standin

LOADING = {
    "cuda": ("cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncGetAttribute", "cuCtxPushCurrent_v2"),
    "hip": ("hipModuleLoadData", "hipModuleGetFunction", "hipFuncGetAttribute", "hipGetDevice"),
}
STARTING = {
    "cuda": (
        "cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain",
    ),
    "hip": ("hipInit", "hipGetDeviceCount", "hipGetDevicePropertiesR0600", "hipDeviceGetAttribute"),
}  # fmt: skip
MEMORY = {
    "cuda": ("cuMemAlloc_v2", "cuMemsetD32_v2", "cuStreamSynchronize"),
    "hip": ("hipMalloc", "hipMemsetD32", "hipStreamSynchronize"),
}
READING = {"cuda": ("cuCtxSynchronize", "cuMemcpyDtoH_v2"), "hip": ("hipDeviceSynchronize", "hipMemcpyDtoH")}
OUT_OF_MEMORY = {"cuda": "CUDA_ERROR_OUT_OF_MEMORY", "hip": "hipErrorOutOfMemory"}
REFUSED_IMAGE = {"cuda": "CUDA_ERROR_INVALID_IMAGE", "hip": "hipErrorInvalidImage"}


def of_both(table):
    return [(vendor, call) for vendor, calls in table.items() for call in calls]


@pytest.fixture
def device(request, vendor):
    return request.getfixturevalue(vendor)


def assert_names(error, device, call, *parts):
    assert (error.call, error.code, error.name) == (call, 2, OUT_OF_MEMORY[device.vendor])
    for part in (call, "(2)", error.name, device.device(), *parts):
        assert part in str(error)


@pytest.mark.parametrize(("vendor", "call"), of_both(LOADING))
def test_a_failure_to_load_names_call_code_kernel_and_device_and_launches_nothing(device, call):
    tensors = device.tensors()
    with load(device.bundle("a"), device=device.device()) as kernels:
        device.standin.fail(call, 2, nth=-1)
        for _ in range(2):
            with pytest.raises(DriverError) as caught:
                device.launch(kernels, "a", tensors)
            assert_names(caught.value, device, call, "copy/a (copy_a)")
        assert (device.standin.launches, device.standin.live_modules) == ([], 0)
        assert kernels.usage() == {}


@pytest.mark.parametrize(("vendor", "call"), of_both(STARTING))
def test_a_failure_to_start_names_call_code_and_device(device, call):
    path = device.bundle("a")
    device.standin.fail(call, 2)
    with pytest.raises(DriverError) as caught:
        load(path, device=device.device())
    error = caught.value
    assert (error.call, error.code, error.name) == (call, 2, OUT_OF_MEMORY[device.vendor])
    assert device.vendor in str(error)


@pytest.mark.parametrize(("vendor", "call"), of_both(MEMORY))
def test_a_failure_to_get_memory_is_raised_and_is_no_address(device, call):
    with load(device.bundle("a"), device=device.device()) as kernels:
        device.standin.fail(call, 2)
        with pytest.raises(DriverError) as caught:
            kernels.driver.filled_i32(7, 5)
        assert_names(caught.value, device, call)
        address = kernels.driver.filled_i32(7, 5)
        assert kernels.driver.read(address, 20) == (7).to_bytes(4, "little") * 5


@pytest.mark.parametrize(("vendor", "call"), of_both(READING))
def test_a_failure_to_read_is_raised_and_is_no_data(device, call):
    with load(device.bundle("a"), device=device.device()) as kernels:
        address = kernels.driver.filled_i32(-1, 3)
        device.standin.fail(call, 2)
        with pytest.raises(DriverError) as caught:
            kernels.driver.read(address, 12)
        assert_names(caught.value, device, call)
        assert kernels.driver.read(address, 12) == b"\xff" * 12


def test_a_failed_launch_names_kernel_and_device_and_the_next_one_works(bench):
    tensors = bench.tensors()
    with load(bench.bundle("a"), device=bench.device()) as kernels:
        bench.standin.fail(bench.launch_call, 719)
        with pytest.raises(DriverError, match="unspecified launch failure") as caught:
            bench.launch(kernels, "a", tensors)
        assert (caught.value.call, caught.value.code) == (bench.launch_call, 719)
        assert "launching copy/a (copy_a)" in str(caught.value)
        assert bench.device() in str(caught.value)
        assert kernels.usage() == {}
        bench.launch(kernels, "a", tensors)
        assert [launch.symbol for launch in bench.standin.launches] == ["copy_a"]
        assert kernels.usage() == {"a": 1}


def test_occupancy_and_waiting_fail_by_name(bench):
    names = {
        "cuda": ("cuOccupancyMaxActiveBlocksPerMultiprocessor", "cuCtxSynchronize"),
        "hip": ("hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", "hipDeviceSynchronize"),
    }
    occupancy, wait = names[bench.vendor]
    with load(bench.bundle("a"), device=bench.device()) as kernels:
        function = kernels._executor.function(kernels.rows("copy")[0])
        assert kernels.driver.resident_groups(function) == (2048 if bench.vendor == "cuda" else 1024) // 128
        bench.standin.fail(occupancy, 2)
        with pytest.raises(DriverError) as caught:
            kernels.driver.resident_groups(function)
        assert_names(caught.value, bench, occupancy, "copy/a (copy_a)")
        bench.standin.fail(wait, 2)
        with pytest.raises(DriverError) as caught:
            kernels.driver.synchronize()
        assert_names(caught.value, bench, wait)


def test_a_good_kernel_works_on_after_another_one_failed_to_load_and_is_never_run_in_its_place(bench):
    tensors = bench.tensors()
    with load(bench.bundle("a", "b"), device=bench.device()) as kernels:
        bench.launch(kernels, "a", tensors)
        bench.standin.fail(bench.load_call, 200, nth=-1)
        with pytest.raises(DriverError, match=r"copy/b \(copy_b\)") as caught:
            bench.launch(kernels, "b", tensors)
        assert caught.value.name == REFUSED_IMAGE[bench.vendor]
        bench.launch(kernels, "a", tensors)
        assert [launch.symbol for launch in bench.standin.launches] == ["copy_a", "copy_a"]


def test_a_kernel_that_could_not_be_loaded_once_is_loaded_at_the_next_call(bench):
    tensors = bench.tensors()
    with load(bench.bundle("a"), device=bench.device()) as kernels:
        bench.standin.fail(bench.load_call, 2)
        with pytest.raises(DriverError):
            bench.launch(kernels, "a", tensors)
        bench.launch(kernels, "a", tensors)
        assert [launch.symbol for launch in bench.standin.launches] == ["copy_a"]


def test_an_unknown_symbol_is_the_drivers_error_and_the_module_is_unloaded(bench):
    with load(bench.bundle("a", told={"symbol": "other"}), device=bench.device()) as kernels:
        with pytest.raises(DriverError, match=r"copy/a \(copy_a\).*(NOT_FOUND|hipErrorNotFound) \(500\)"):
            bench.launch(kernels, "a", bench.tensors())
        assert bench.standin.live_modules == 0


def test_a_machine_without_the_library_says_what_it_tried(bench, monkeypatch):
    monkeypatch.setattr(f"assay.runtime.drivers.{bench.vendor}.LIBRARY_NAMES", ("libno_such_driver.so.9",))
    with pytest.raises(NoDriverError, match=r"cannot be opened: libno_such_driver\.so\.9: cannot open"):
        load(bench.bundle("a"), device=bench.device())


@pytest.mark.parametrize(
    ("vendor", "missing"),
    [("cuda", "cuModuleLoadDataEx"), ("cuda", "cuLaunchKernel"), ("hip", "hipModuleLaunchKernel")],
)
def test_a_library_without_a_function_is_refused_when_the_bundle_is_loaded(device, missing, tmp_path, monkeypatch):
    old = compile_standin(device.vendor, tmp_path / "old.so", without=(missing,))
    monkeypatch.setattr(f"assay.runtime.drivers.{device.vendor}.LIBRARY_NAMES", (str(old),))
    with pytest.raises(NoDriverError, match=rf"has no {missing}: the driver is too old"):
        load(device.bundle("a"), device=device.device())


def test_a_driver_without_any_device_is_no_driver(bench):
    path = bench.bundle("a")
    bench.standin.reset()
    with pytest.raises(NoDriverError, match=r"(NO_DEVICE|hipErrorNoDevice) \(100\)"):
        load(path, device=bench.device())


@pytest.mark.parametrize("ordinal", [2, 7])
def test_an_ordinal_that_the_driver_does_not_see_is_refused_with_their_number(bench, ordinal):
    with pytest.raises(NoDriverError, match=f"{bench.vendor}:{ordinal}: the driver sees 2 devices, counted from 0"):
        load(bench.bundle("a"), device=bench.device(ordinal))
    assert bench.standin.live_modules == 0


@pytest.mark.parametrize("device_name", ["cuda:-1", "cuda:x", "hip:1.5", "rocm:0", "cuda0"])
def test_a_misspelt_device_is_refused_with_the_spellings(bench, device_name):
    with pytest.raises(NoDriverError, match="allowed: 'cuda:0', 'hip:0'"):
        load(bench.bundle("a"), device=device_name)


def test_a_bundle_for_another_architecture_is_refused_before_anything_is_loaded(bench):
    path = bench.bundle("a")
    other = {"cuda": "sm_121", "hip": "gfx1200"}[bench.vendor]
    bench.standin.reset(other)
    with pytest.raises(ArchitectureError) as caught:
        load(path, device=bench.device())
    held = {"cuda": "(cuda, sm_120)", "hip": "(hip, gfx1201)"}[bench.vendor]
    assert f"({bench.vendor}, {other})" in str(caught.value)
    assert held in str(caught.value)
    assert bench.standin.count(bench.load_call) == 0


def test_code_whose_own_header_names_another_architecture_is_refused_before_it_is_loaded(bench):
    """A bundle whose label was changed: neighbours' code may load, and then compute wrongly."""
    other = {"cuda": "sm_121", "hip": "gfx1200"}[bench.vendor]
    with load(bench.bundle("a", arch=other), device=bench.device()) as kernels:
        with pytest.raises(MismatchError) as caught:
            bench.launch(kernels, "a", bench.tensors())
        for part in (f"({bench.vendor}, {other})", bench.device(), "copy/a (copy_a)"):
            assert part in str(caught.value)
        assert bench.standin.count(bench.load_call) == 0


def test_what_is_no_code_object_is_left_to_the_driver_to_refuse(bench, factory, tmp_path):
    row, _ = copy_row(factory, bench.vendor, "a", [("pick", "eq", "a")])
    junk = code_object({"cuda": "sm_120", "hip": "gfx1201"}[bench.vendor], "unannounced")
    write_copy_bundle(factory, tmp_path / "j.assay", bench.vendor, [(row._replace(object=factory.sha(junk)), junk)])
    with load(tmp_path / "j.assay", device=bench.device()) as kernels:
        with pytest.raises(DriverError) as caught:
            bench.launch(kernels, "a", bench.tensors())
        assert (caught.value.code, caught.value.name) == (200, REFUSED_IMAGE[bench.vendor])


@pytest.mark.parametrize("warps", [4, 8])
def test_more_threads_than_the_kernel_takes_are_refused_at_load(bench, warps):
    """The row says 32 x num_warps threads; the binary was made for 128."""
    with load(bench.bundle("a", num_warps=warps, told={"threads": 128}), device=bench.device()) as kernels:
        if warps == 4:
            bench.launch(kernels, "a", bench.tensors())
            assert list(bench.standin.launches[0].threads) == [128, 1, 1]
            return
        with pytest.raises(MismatchError, match=r"copy/a \(copy_a\): 256 threads a workgroup, the kernel takes 128"):
            bench.launch(kernels, "a", bench.tensors())
        assert bench.standin.launches == []
        assert bench.standin.live_modules == 0


def test_more_shared_memory_than_the_driver_allows_is_refused_before_the_kernel_is_loaded(bench):
    path = bench.bundle("a", lds_bytes=40_000)
    bench.standin.library.standin_reset()
    for _ in range(2):
        bench.standin.library.standin_device({"cuda": b"sm_120", "hip": b"gfx1201"}[bench.vendor], 32_768, 8)
    with load(path, device=bench.device()) as kernels:
        with pytest.raises(ArgumentError, match=r"shared memory of copy/a.*40000 bytes.*at most 32768"):
            bench.launch(kernels, "a", bench.tensors())
        assert bench.standin.count(bench.load_call) == 0


def test_static_shared_memory_counts_together_with_that_of_the_launch(bench):
    limit = {"cuda": 101_376, "hip": 65_536}[bench.vendor]
    for static, fits in ((limit - 40_000, True), (limit - 39_999, False)):
        bench.standin.reset(*[{"cuda": "sm_120", "hip": "gfx1201"}[bench.vendor]] * 2)
        with load(bench.bundle("a", lds_bytes=40_000, told={"static": static}), device=bench.device()) as kernels:
            if fits:
                bench.launch(kernels, "a", bench.tensors())
                assert bench.standin.launches[0].shared == 40_000
                continue
            with pytest.raises(MismatchError, match=rf"{limit + 1} bytes of shared memory .* allows {limit}"):
                bench.launch(kernels, "a", bench.tensors())
            assert bench.standin.launches == []


def test_a_grid_that_no_device_has_is_refused_before_anything_is_loaded(bench):
    tensors = bench.tensors(shape=(7000, 10))
    with load(bench.bundle("a"), device=bench.device()) as kernels:
        with pytest.raises(ArgumentError, match=r"grid axis y: 70000 \(batch x heads\).*at most 65535"):
            bench.launch(kernels, "a", tensors)
        assert bench.standin.count(bench.launch_call) == 0
        bench.launch(kernels, "a", bench.tensors(shape=(6553, 10)))
        assert list(bench.standin.launches[0].grid) == [1, 65530, 1]


def test_a_batch_of_none_launches_nothing_and_the_next_call_works(bench):
    with load(bench.bundle("a"), device=bench.device()) as kernels:
        bench.launch(kernels, "a", bench.tensors(shape=(0, 3)))
        assert bench.standin.count(bench.launch_call) == 0
        bench.launch(kernels, "a", bench.tensors())
        assert bench.standin.count(bench.launch_call) == 1


@pytest.mark.parametrize("stream", [0, 1, 2])
def test_a_default_streams_handle_arrives_as_it_is(bench, stream):
    with load(bench.bundle("a"), device=bench.device()) as kernels:
        bench.launch(kernels, "a", bench.tensors(), stream=stream)
        assert [launch.stream for launch in bench.standin.launches] == [stream]


def test_a_streams_address_arrives_as_it_is_and_a_small_number_is_refused(bench):
    tensors = bench.tensors()
    with load(bench.bundle("a"), device=bench.device()) as kernels:
        handle = bench.standin.stream(0)
        bench.launch(kernels, "a", tensors, stream=handle)
        assert [launch.stream for launch in bench.standin.launches] == [handle]
        for wrong in (3, 7, 4095, -1, True):
            with pytest.raises(ArgumentError, match="a small number is a stream's id"):
                bench.launch(kernels, "a", tensors, stream=wrong)
        with pytest.raises(DriverError):
            bench.launch(kernels, "a", tensors, stream=handle + 8)
        assert len(bench.standin.launches) == 1


def test_closed_kernels_launch_nothing_and_may_be_closed_again(bench):
    tensors = bench.tensors()
    kernels = load(bench.bundle("a"), device=bench.device())
    bench.launch(kernels, "a", tensors)
    function = kernels._executor.function(kernels.rows("copy")[0])
    driver, block = kernels.driver, kernels.driver.argument_block(32)
    kernels.close()
    kernels.close()
    assert bench.standin.live_modules == 0
    with pytest.raises(ClosedError, match="load the bundle again"):
        driver.launch(function, (1, 1, 1), block, 0)
    with pytest.raises(ClosedError):
        driver.check_usable()
    with pytest.raises(ClosedError):
        driver.filled_i32(1, 1)
    driver.unload(function)
    assert len(bench.standin.launches) == 1
    unload = {"cuda": "cuModuleUnload", "hip": "hipModuleUnload"}[bench.vendor]
    assert bench.standin.count(unload) == 1


def test_closing_gives_everything_back_even_where_the_driver_refuses(bench):
    before = bench.standin.live_blocks
    kernels = load(bench.bundle("a", "b"), device=bench.device())
    assert kernels.preload() == 2
    kernels.driver.filled_i32(1, 4)
    assert (bench.standin.live_modules, bench.standin.live_blocks - before) == (2, 1)
    unload = {"cuda": "cuModuleUnload", "hip": "hipModuleUnload"}[bench.vendor]
    bench.standin.fail(unload, 400)
    kernels.close()
    assert (bench.standin.live_modules, bench.standin.live_blocks - before) == (1, 0)


def test_arguments_are_packed_at_the_binarys_offsets_with_null_for_what_is_hidden(bench):
    tensors = bench.tensors()
    with load(bench.bundle("a"), device=bench.device()) as kernels:
        bench.launch(kernels, "a", tensors, n=-5)
    (launch,) = bench.standin.launches
    x, y = (tensors[name].address.to_bytes(8, "little") for name in "xy")
    assert launch.block == x + y + (-5).to_bytes(4, "little", signed=True) + bytes(4) + bytes(8)
    assert (list(launch.grid), list(launch.threads), launch.shared) == ([1, 6, 1], [128, 1, 1], 1024)


def test_memory_is_filled_before_a_launch_on_any_stream_can_read_it(bench):
    with load(bench.bundle("a"), device=bench.device()) as kernels:
        kernels.driver.filled_i32(3, 16)
        bench.launch(kernels, "a", bench.tensors(), stream=bench.standin.stream(0))
        assert (len(bench.standin.launches), bench.standin.early_readers) == (1, 0)


def test_what_a_driver_says_of_its_device_is_told(bench):
    with load(bench.bundle("a"), device=bench.device(1)) as kernels:
        told = kernels.driver.describe()
    assert told["name"] == "Stand-in 1"
    assert told["pci_address"] == "0000:04:00.0"
    assert re.fullmatch({"cuda": r"12\.4", "hip": r"6\.4\.43483"}[bench.vendor], told["driver_version"])
    assert (told["processors"], told["lds_limit"]) == (32, {"cuda": 101_376, "hip": 65_536}[bench.vendor])


def test_preload_loads_every_row_once_and_calls_load_nothing_more(bench):
    tensors = bench.tensors()
    with load(bench.bundle("a", "b"), device=bench.device()) as kernels:
        assert bench.standin.count(bench.load_call) == 0
        assert kernels.preload(["copy"]) == 2
        assert bench.standin.count(bench.load_call) == 2
        for id in ("a", "b", "a"):
            bench.launch(kernels, id, tensors)
        assert bench.standin.count(bench.load_call) == 2
        assert [launch.symbol for launch in bench.standin.launches] == ["copy_a", "copy_b", "copy_a"]


def test_the_launch_path_in_c_starts_what_the_one_in_python_starts(bench):
    """With the addresses that `native_launch` gives, and only where the device is the current one."""
    if fast.module is None:
        pytest.skip("the launch path in C is not built here")
    tensors = bench.tensors()
    with load(bench.bundle("a"), device=bench.device()) as kernels:
        bench.launch(kernels, "a", tensors, n=9, stream=1)
        views = kernels._executor.views("copy", tensors)
        prepared = kernels._executor.prepare("copy", views, {"n": 9}, {"pick": "a"})
        native = kernels.driver.native_launch(prepared.function)
        launch = FastLaunch(prepared, fast.module.launch, native, [Address(0, 0), Address(1, 0)])
        addresses = b"".join(tensors[name].address.to_bytes(8, "little") for name in prepared.pointer_names)
        bench.standin.current = 1
        assert launch(addresses, (9,), 1) != 0
        assert len(bench.standin.launches) == 1
        bench.standin.current = 0
        assert launch(addresses, (9,), 1) == 0
        assert kernels.usage() == {"a": 2}
    first, second = (bytes(launch) for launch in bench.standin.launches)
    assert first == second
