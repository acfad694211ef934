"""Many threads and several devices: each kernel is loaded once a device, and every thread's device stays its own."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from assay.runtime import ArgumentError, load
from assay.runtime.executing import Executor

THREADS = 32


def at_once(acts):
    """Run all of them in threads of their own, started together; their results in order."""
    barrier = threading.Barrier(len(acts))

    def run(act):
        barrier.wait()
        return act()

    with ThreadPoolExecutor(len(acts)) as pool:
        return [future.result() for future in [pool.submit(run, act) for act in acts]]


def test_32_threads_call_first_at_once_and_the_kernel_is_loaded_once(bench):
    tensors = bench.tensors()
    path = bench.bundle("a", "b")
    for number in range(1, 11):
        with load(path, device=bench.device()) as kernels:
            acts = [lambda id=id: bench.launch(kernels, id, tensors, n=7) for id in "ab" * (THREADS // 2)]
            at_once(acts)
            assert kernels.usage() == {"a": THREADS // 2, "b": THREADS // 2}
            assert bench.standin.live_modules == 2
        assert bench.standin.count(bench.load_call) == 2 * number
    blocks = {(launch.symbol, launch.block) for launch in bench.standin.launches}
    assert len(bench.standin.launches) == 10 * THREADS
    assert len(blocks) == 2


def test_one_executor_is_made_however_many_threads_ask_first(bench, monkeypatch):
    """Two would load every kernel twice."""
    made = []

    def slowly(self, *arguments, **options):
        made.append(self)
        time.sleep(0.01)
        original(self, *arguments, **options)

    original = Executor.__init__
    monkeypatch.setattr(Executor, "__init__", slowly)
    tensors = bench.tensors()
    with load(bench.bundle("a"), device=bench.device()) as kernels:
        at_once([lambda: bench.launch(kernels, "a", tensors)] * 8)
    assert len(made) == 1
    assert bench.standin.count(bench.load_call) == 1


def test_threads_never_see_each_others_arguments(bench):
    """One kernel, one row, other tensors and numbers in every thread."""
    with load(bench.bundle("a"), device=bench.device()) as kernels:
        mine = [(bench.tensors(), number) for number in range(THREADS)]
        at_once([lambda t=t, n=n: [bench.launch(kernels, "a", t, n=n) for _ in range(20)] for t, n in mine])
    seen = Counter(launch.block[:20] for launch in bench.standin.launches)
    wanted = {
        b"".join(t[name].address.to_bytes(8, "little") for name in "xy") + n.to_bytes(4, "little"): 20 for t, n in mine
    }
    assert seen == wanted


def test_threads_that_share_a_prepared_launch_do_not_mix_their_arguments(bench):
    """It packs into one block, which is the driver's to read until the launch returns."""
    tensors = bench.tensors()
    with load(bench.bundle("a"), device=bench.device()) as kernels:
        views = kernels._executor.views("copy", tensors)
        prepared = kernels._executor.prepare("copy", views, {"n": 0}, {"pick": "a"})
        addresses = [views[name].address for name in prepared.pointer_names]
        at_once([lambda n=n: [prepared.launch(addresses, [n], 0) for _ in range(50)] for n in range(THREADS)])
        assert kernels.usage() == {"a": 50 * THREADS}
    numbers = [int.from_bytes(launch.block[16:20], "little") for launch in bench.standin.launches]
    assert Counter(numbers) == dict.fromkeys(range(THREADS), 50)


def test_a_new_thread_that_has_nothing_to_load_launches(bench):
    """It has no current context; its kernel was loaded by another thread."""
    tensors = bench.tensors()
    with load(bench.bundle("a"), device=bench.device()) as kernels:
        bench.launch(kernels, "a", tensors)
        ((_, current),) = at_once([lambda: (bench.launch(kernels, "a", tensors), bench.standin.current)])
        assert current == (-1 if bench.vendor == "cuda" else 0)
    assert len(bench.standin.launches) == 2
    assert bench.standin.count(bench.load_call) == 1


def test_two_devices_take_turns_with_a_module_each(bench):
    path = bench.bundle("a")
    on = [bench.tensors(0), bench.tensors(1)]
    with load(path, device=bench.device(0)) as first, load(path, device=bench.device(1)) as second:
        before = bench.standin.current
        for kernels, tensors in ((first, on[0]), (second, on[1]), (first, on[0])):
            bench.launch(kernels, "a", tensors)
            assert bench.standin.current == before
        assert bench.standin.count(bench.load_call) == 2
    assert [launch.device for launch in bench.standin.launches] == [0, 1, 0]


def test_two_devices_from_many_threads_at_once(bench):
    path = bench.bundle("a")
    on = [bench.tensors(0), bench.tensors(1)]
    with load(path, device=bench.device(0)) as first, load(path, device=bench.device(1)) as second:

        def act(number):
            kernels = (first, second)[number % 2]
            bench.launch(kernels, "a", on[number % 2], n=number)
            return bench.standin.current

        currents = at_once([lambda number=number: act(number) for number in range(THREADS)])
        assert set(currents) == {-1 if bench.vendor == "cuda" else 0}
        assert bench.standin.count(bench.load_call) == 2
    found = {(int.from_bytes(launch.block[16:20], "little"), launch.device) for launch in bench.standin.launches}
    assert found == {(number, number % 2) for number in range(THREADS)}


def test_tensors_of_another_device_are_refused_before_anything_is_loaded(bench):
    here, there = bench.tensors(0), bench.tensors(1)
    with load(bench.bundle("a"), device=bench.device(1)) as kernels:
        with pytest.raises(ArgumentError, match=rf"x: on {bench.vendor}:0.*{bench.vendor}:1, where the kernels are"):
            bench.launch(kernels, "a", {"x": here["x"], "y": there["y"]})
        assert bench.standin.count(bench.load_call) == 0
        bench.launch(kernels, "a", there)
    assert [launch.device for launch in bench.standin.launches] == [1]


def test_filled_memory_is_made_once_for_all_threads_that_ask(bench):
    with load(bench.bundle("a"), device=bench.device()) as kernels:
        before = bench.standin.live_blocks
        addresses = at_once([lambda: kernels.driver.filled_i32(9, 100)] * THREADS)
        assert len(set(addresses)) == 1
        assert bench.standin.live_blocks - before == 1
        assert kernels.driver.read(addresses[0], 400) == (9).to_bytes(4, "little") * 100
