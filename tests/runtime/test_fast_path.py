"""The launch path in C and its twin in Python start the same kernels with the same argument blocks."""

import ctypes
import struct

import pytest
import torch

from assay.bundle.reader import Bundle
from assay.runtime import ArgumentError, fast
from assay.runtime.drivers.driver import Driver, Function, NativeLaunch
from assay.runtime.drivers.native import ArgumentBlock
from assay.runtime.kernels import Kernels

from .decode_inputs import Engine

pytestmark = pytest.mark.skipif(fast.module is None, reason="no C compiler built the extension here")

_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
)  # fmt: skip
_CURRENT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))
CONTEXT = 0x1234_5000


class Recorder(Driver):
    """A device that writes down what it is asked to launch; tensors are this process's own.

    launches: (way, function's label, grid, threads, LDS, stream, block).  status: what the C launch returns.
    """

    name, device, tensor_device = "recorder:0", ("hip", "gfx1201"), ("cpu", 0)
    lds_limit, processors, grid_limit = 65536, 4, (2**31 - 1, 65535, 65535)

    def __init__(self):
        self.launches = []
        self.loaded = []
        self.status, self.context = 0, CONTEXT
        self._splits = (ctypes.c_int32 * 4096)()
        self._launch, self._current = _LAUNCH(self._native), _CURRENT(self._give_current)

    def load(self, code, wanted):
        self.loaded.append(wanted.label)
        return Function(len(self.loaded), None, wanted)

    def launch(self, function, grid, block, stream, pointers=()):
        extra = (ctypes.c_void_p * 5).from_address(block.extra)
        start = ctypes.cast(extra[1], ctypes.POINTER(ctypes.c_char))
        size = ctypes.cast(extra[3], ctypes.POINTER(ctypes.c_size_t))[0]
        self._note("python", function.handle, grid, function.threads, function.lds_bytes, stream, start[:size])

    def _native(self, handle, x, y, z, threads, y_threads, z_threads, lds, stream, parameters, extra):
        assert (y_threads, z_threads, parameters, extra[0], extra[2], extra[4]) == (1, 1, None, 1, 2, None)
        size = ctypes.cast(extra[3], ctypes.POINTER(ctypes.c_size_t))[0]
        block = ctypes.string_at(extra[1], size)
        if not self.status:
            self._note("c", handle, (x, y, z), threads, lds, stream or 0, block)
        return self.status

    def _give_current(self, out):
        out[0] = self.context
        return 0

    def _note(self, way, handle, grid, threads, lds, stream, block):
        self.launches.append((way, self.loaded[handle - 1], tuple(grid), threads, lds, stream, bytes(block)))

    def native_launch(self, function):
        launch, current = (ctypes.cast(f, ctypes.c_void_p).value for f in (self._launch, self._current))
        return NativeLaunch(1, launch, current, CONTEXT, function.handle)

    def argument_block(self, size):
        return ArgumentBlock(size, 1, 2, 0)

    def filled_i32(self, value, count):
        return ctypes.addressof(self._splits) + 4 * value

    def resident_groups(self, function):
        return 8

    def check_usable(self): ...
    def unload(self, function): ...
    def synchronize(self): ...
    def close(self): ...
    def read(self, address, size): ...
    def describe(self): ...


@pytest.fixture
def recorder():
    return Recorder()


@pytest.fixture
def kernels(decode_bundle, recorder):
    bundle = Bundle.open(decode_bundle)
    with Kernels(bundle, bundle.manifest.targets, recorder) as loaded:
        yield loaded


CALLS = {
    "plain": {},
    "a window": {"sliding_window": 33},
    "splits": {"num_splits": 5},
    "sinks": {"sinks": torch.zeros(4)},
    "a stream": {"stream": 0x7F00_0000_1000},
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("fp8", [True, False])
def test_both_paths_launch_the_same(kernels, recorder, name, fp8):
    engine = Engine(fp8=fp8)
    batch, heads, head_dim = engine.q.shape
    given = {
        "out": torch.empty_like(engine.q),
        "workspace": torch.empty(
            kernels.workspace_size(batch=batch, q_heads=heads, head_dim=head_dim), dtype=torch.uint8
        ),
    }
    for _ in range(3):
        kernels.decode_attention(*engine.arguments, **engine.scales, **given, **CALLS[name])
    ways = [launch[0] for launch in recorder.launches]
    assert ways == ["python", "python", "c", "c", "c", "c"]
    stage_1, merge = (recorder.launches[at][1:] for at in (0, 1))
    assert [launch[1:] for launch in recorder.launches] == [stage_1, merge] * 3
    assert stage_1[4] == merge[4] == CALLS[name].get("stream", 0)
    assert sum(kernels.usage().values()) == 6


def test_the_first_call_of_all_spends_nothing_on_the_path_in_c(kernels, recorder):
    engine = Engine()
    kernels.decode_attention(*engine.arguments, **engine.scales)
    assert "_read" not in vars(kernels._decode)
    assert not kernels._decode._fast_plans
    kernels.decode_attention(*engine.arguments, **engine.scales)
    assert [launch[0] for launch in recorder.launches] == ["python", "python", "c", "c"]


def test_a_plan_launches_in_c_with_the_same_blocks(kernels, recorder):
    engine = Engine()
    plan = kernels.plan(*engine.arguments, **engine.scales, sliding_window=9)
    given = {"out": plan.out, "workspace": plan.workspace}
    kernels.decode_attention(*engine.arguments, **engine.scales, sliding_window=9, **given)
    plan.launch(0x7F00_0000_2000)
    assert [launch[0] for launch in recorder.launches] == ["python", "python", "c", "c"]
    for by_call, by_plan in zip(recorder.launches[:2], recorder.launches[2:], strict=True):
        assert by_plan[1:5] == by_call[1:5]
        assert by_plan[5:] == (0x7F00_0000_2000, by_call[6])
    recorder.context = 0
    plan.launch()
    assert [launch[0] for launch in recorder.launches[4:]] == ["python", "python"]


def test_addresses_and_numbers_of_a_later_call_are_its_own(kernels, recorder):
    engine, other = Engine(), Engine(seed=1)
    kernels.decode_attention(*engine.arguments, **engine.scales, sliding_window=5)
    out = torch.empty_like(other.q)
    kernels.decode_attention(*other.arguments[:-1], 0.5, **other.scales, sliding_window=7, out=out)
    assert [launch[0] for launch in recorder.launches] == ["python", "python", "c", "c"]
    row = next(row for row in kernels.rows("decode_attention") if row.id in kernels.usage())
    offsets = {argument.name: argument.offset for argument in row.arguments}
    block = recorder.launches[2][-1]

    def at(name, code):
        return struct.unpack_from(code, block, offsets[name])[0]

    assert at("q", "<Q") == other.q.data_ptr()
    assert at("v_scale", "<Q") == other.scales["v_scale"].data_ptr()
    assert at("sm_scale", "<f") == 0.5
    assert at("window_length", "<i") == 7


def test_longer_indices_do_not_prepare_anew_but_another_shape_does(kernels, recorder):
    for length in (40, 41, 63):
        engine = Engine(lengths=(length,))
        # The cache is one and the same in an engine; only the list of its slots grows.
        big = Engine(lengths=(100,))
        arguments = (engine.q, big.k, big.v, engine.indptr, engine.indices, engine.q_positions, 0.1)
        kernels.decode_attention(*arguments, **big.scales, num_splits=2)
    assert [launch[0] for launch in recorder.launches] == ["python"] * 2 + ["c"] * 4
    two = Engine(lengths=(40, 2))
    kernels.decode_attention(*two.arguments, **two.scales, num_splits=2)
    assert recorder.launches[-1][0] == "python"


def test_strides_of_one_index_do_not_stand_for_those_of_many(kernels):
    engine = Engine(lengths=(1,))
    wide = torch.zeros(70, dtype=torch.int32)
    q, k, v, indptr, _, positions, scale = engine.arguments
    for few in (wide[:1].as_strided((1,), (7,)), wide[:0].as_strided((0,), (7,))):
        kernels.decode_attention(q, k, v, indptr, few, positions, scale, **engine.scales, num_splits=2)
    with pytest.raises(ArgumentError, match="stride 7; allowed: 1"):
        kernels.decode_attention(q, k, v, indptr, wide[::7], positions, scale, **engine.scales, num_splits=2)


def test_another_current_context_takes_the_slow_path(kernels, recorder):
    engine = Engine()
    kernels.decode_attention(*engine.arguments, **engine.scales)
    recorder.context = 0
    kernels.decode_attention(*engine.arguments, **engine.scales)
    assert [launch[0] for launch in recorder.launches] == ["python"] * 4


NUMBERS = [
    {"sm_scale": float("nan")}, {"sm_scale": 1e39}, {"sm_scale": "1"}, {"sm_scale": True},
    {"sliding_window": 0}, {"sliding_window": 2**31}
]  # fmt: skip


@pytest.mark.parametrize("option", NUMBERS)
def test_numbers_are_checked_on_the_fast_path_too(kernels, recorder, option):
    engine = Engine()
    options = {"sm_scale": 0.1, "sliding_window": 3, **option}
    kernels.decode_attention(*engine.arguments[:-1], 0.1, **engine.scales, sliding_window=3)
    with pytest.raises(ArgumentError, match=next(iter(option))):
        kernels.decode_attention(
            *engine.arguments[:-1], options["sm_scale"], **engine.scales, sliding_window=options["sliding_window"]
        )
    assert len(recorder.launches) == 2


def test_a_failed_launch_in_c_is_tried_by_the_path_that_explains_errors(kernels, recorder):
    engine = Engine()
    kernels.decode_attention(*engine.arguments, **engine.scales)
    recorder.status = 700
    kernels.decode_attention(*engine.arguments, **engine.scales)
    assert [launch[0] for launch in recorder.launches] == ["python"] * 4
    assert sum(kernels.usage().values()) == 4


def test_a_moved_view_is_another_call(kernels, recorder):
    engine = Engine()
    kernels.decode_attention(*engine.arguments, **engine.scales)
    storage = torch.zeros(engine.k.numel() + 1, dtype=torch.uint8)
    moved = storage[1:].view(engine.k.shape)
    q, _, v, *rest = engine.arguments
    kernels.decode_attention(q, moved, v, *rest, **engine.scales)
    assert recorder.launches[0][1] != recorder.launches[2][1], "another row"


@pytest.mark.parametrize(
    "recipe", [b"", bytes(103), struct.pack("<13q", 1, 0, 0, 0, 0, 1, 1, 1, 32, 0, 8, 1, 0), bytes(8 * 13) + bytes(8)]
)
def test_a_recipe_that_contradicts_itself_is_refused(recipe):
    with pytest.raises(ValueError, match="recipe"):
        fast.module.launch(recipe, b"", (), 0)


def test_a_pointer_outside_its_block_is_refused():
    head = struct.pack("<13q", 1, 0, 0, 0, 0, 1, 1, 1, 32, 0, 8, 1, 0)
    for slot in ((1, 0, 0), (-8, 0, 0), (0, 1, 0)):
        with pytest.raises(ValueError, match="outside"):
            fast.module.launch(head + struct.pack("<3q", *slot) + bytes(8), bytes(8), (), 0)


@pytest.mark.parametrize(("counts", "slot"), [((0, 1), (2**63 - 4, 2)), ((2**61, 0), (0, 0)), ((0, 2**61), (0, 0))])
def test_offsets_and_counts_that_overflow_are_refused(counts, slot):
    head = struct.pack("<13q", 1, 0, 0, 0, 0, 1, 1, 1, 32, 0, 8, *counts)
    with pytest.raises(ValueError, match=r"recipe|outside"):
        fast.module.launch(head + struct.pack("<2q", *slot) + bytes(8), bytes(8), (1,), 0)


def test_what_it_cannot_read_is_left_to_python():
    assert fast.module.read((torch.zeros(2), None), 0, 0, 1) is not None
    assert fast.module.read((object(),), 0, 0, 1) is None
    assert fast.module.read((torch.zeros([1] * 9),), 0, 0, 0) is None
    assert fast.module.current_stream(object()) is None


def test_every_fact_of_a_tensor_counts():
    base = torch.zeros(4, 6)
    unlike = [
        base.to(torch.int32), base.view(6, 4), base.t(), base[:, :5], base.half(), torch.zeros(25)[1:].view(4, 6),
        base.view(-1), base.view(torch.uint8),
    ]  # fmt: skip
    keys = {fast.module.read((tensor,), -1, 0, 0)[0] for tensor in (base, *unlike)}
    assert len(keys) == 1 + len(unlike)
    assert fast.module.read((torch.zeros(4, 6),), -1, 0, 0)[0] in keys or base.data_ptr() % 16


def test_a_plan_tells_the_framework_of_a_stream_once(kernels, recorder, monkeypatch):
    """Telling torch takes 17 us a tensor, four times what a launch does."""
    told = []
    monkeypatch.setattr("assay.runtime.calls.bound_decode.used_on", lambda *given: told.append(given))
    engine = Engine(fp8=False)
    plan = kernels.plan(*engine.arguments)
    for stream in (None, 0x7F00_0000_1000, 0x7F00_0000_1000, 0x7F00_0000_2000):
        plan.launch(stream)
    streams = [0x7F00_0000_1000, 0x7F00_0000_1000, 0x7F00_0000_2000, 0x7F00_0000_2000]
    assert [stream for _, stream in told] == streams
    assert [tensor is plan.out for tensor, _ in told] == [True, False] * 2
    assert len(recorder.launches) == 8
