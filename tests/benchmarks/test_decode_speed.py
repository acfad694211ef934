"""A whole run of decode_speed.py on the CPU, with stand-ins for the device, its clock and the kernels."""

import json
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")


class Clock:
    """Stands for a captured graph: the function runs for each turn, and every sample is a little later."""

    now = 0.0

    def __init__(self, function, turns):
        for turn in range(turns):
            function(turn)

    def once(self):
        Clock.now += 0.001
        return 10.0 + Clock.now


class FakeKernels:
    """Stands for a loaded bundle.  error: what is added to every output; splits: those that it was asked for."""

    identity = "0" * 64

    def __init__(self, gpu, error=0.0):
        self.gpu, self.error, self.splits = gpu, error, []
        self.driver = SimpleNamespace(describe=lambda: {"name": "a device"})

    def plan(self, q, k, v, indptr, indices, positions, _sm_scale, *, k_scale=None, v_scale=None, num_splits=None):
        self.splits.append(num_splits)
        caches = {"k": k, "v": v} | ({"k_scale": k_scale, "v_scale": v_scale} if k_scale is not None else {})
        batch, heads, dim = q.shape
        shape = self.gpu.Shape(batch, indices.numel() // batch, heads, k.shape[1], dim)
        inputs = self.gpu.Inputs(shape, q, caches, indptr, [indices], positions)
        out = torch.stack([self.gpu.reference(inputs, request) for request in range(batch)]) + self.error
        return SimpleNamespace(launch=lambda: out, out=out, starts=(lambda _: None, lambda _: None))


@pytest.fixture
def speed(monkeypatch):
    """The script, with one shape of each kind, and its stand-ins."""
    import gpu

    monkeypatch.setattr(gpu, "DEVICE", "cpu")
    monkeypatch.setattr(gpu, "Timed", Clock)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a device")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))
    import decode_speed
    import jit_call

    shapes = {"long": [gpu.Shape(2, 64, 8, 2, 64)], "short": [gpu.Shape(1, 32, 8, 2, 64)]}
    monkeypatch.setattr(decode_speed, "SHAPES", shapes)
    monkeypatch.setattr(decode_speed, "read_bandwidth", lambda: 4e12)
    monkeypatch.setattr(decode_speed, "_CACHE_BYTES", 1)
    monkeypatch.setattr(decode_speed.peers, "PEERS", ())

    class FakeJit:
        def __init__(self, _kernels, inputs, _plan, _copy=0):
            out = [gpu.reference(inputs, request) for request in range(inputs.shape.batch)]
            self.both = lambda: torch.stack(out)

    monkeypatch.setattr(jit_call, "JitCall", FakeJit)
    return SimpleNamespace(script=decode_speed, gpu=gpu, jit=jit_call)


@pytest.fixture
def gathered(monkeypatch, speed):  # noqa: ARG001
    """The gather finds a launch at once."""
    pytest.importorskip("triton")
    import gather

    launch = gather.Launch(32, 2, 1, 4)
    monkeypatch.setattr(gather, "floor", lambda *_, **__: (gather.Floor(launch, lambda _: None), ""))


def ran(speed, monkeypatch, tmp_path, *arguments, error=0.0):
    """Exit status, document and the stand-in of the bundle after one run."""
    kernels = FakeKernels(speed.gpu, error)
    monkeypatch.setattr(speed.script.assay.runtime, "load", lambda *_, **__: kernels)
    out = tmp_path / "decode.json"
    monkeypatch.setattr(sys, "argv", ["decode_speed.py", "sm90=x.assay", "--out", str(out), *arguments])
    return speed.script.main(), json.loads(out.read_text()), kernels


def names(document, shape):
    return sorted(row["name"] for row in document["rows"] if row["shape"].startswith(shape))


@pytest.mark.usefixtures("gathered")
def test_a_run_times_every_candidate_and_the_gather_of_the_larger_shapes(speed, monkeypatch, tmp_path):
    status, document, _ = ran(speed, monkeypatch, tmp_path, "--rounds", "4")
    assert status == 0
    ways = [f"{name} {way}" for name in ("sm90 bf16", "sm90 fp8") for way in ("warm", "cold")]
    ways += [name.replace("sm90", "sm90 jit") for name in ways]
    assert names(document, "1 x 32") == sorted(["sdpa", *ways])
    gathers = [f"gather {name} {way}" for name in ("bf16", "fp8") for way in ("warm", "cold")]
    assert names(document, "2 x 64") == sorted(["sdpa", *ways, *gathers])
    assert all(len(row["samples_us"]) == 4 and row["drifted"] is False for row in document["rows"])
    assert document["complete"] is True


def test_the_gate_is_on_file_before_anything_is_measured(speed, monkeypatch, tmp_path):
    out = tmp_path / "decode.json"
    seen = []
    monkeypatch.setattr(speed.script, "read_bandwidth", lambda: seen.append(json.loads(out.read_text())) or 4e12)
    ran(speed, monkeypatch, tmp_path, "--no-jit", "--no-gather", "--shapes", "short")
    (before,) = seen
    assert list(before)[:2] == ["schema", "protocol"]
    assert before["protocol"]["drift_limit"] == 1.10
    assert (before["complete"], before["rows"]) == (False, [])


def test_parts_can_be_left_out(speed, monkeypatch, tmp_path):
    given = ("--no-jit", "--no-gather", "--no-peers", "--formats", "fp8", "--splits", "4", "--stages")
    _, document, kernels = ran(speed, monkeypatch, tmp_path, *given)
    parts = [f"sm90 fp8{splits} {way}" for splits in ("", " s4") for way in ("warm", "cold", "stage 1", "merge")]
    assert names(document, "2 x 64") == sorted(["sdpa", *parts])
    assert document["peers"] is None
    assert set(kernels.splits) == {None, 4}


def test_a_wrong_output_is_not_timed_and_fails_the_run(speed, monkeypatch, tmp_path, capsys):
    status, document, _ = ran(speed, monkeypatch, tmp_path, "--no-jit", "--no-gather", error=0.5)
    assert status == 1
    assert names(document, "2 x 64") == ["sdpa", "sm90 bf16", "sm90 fp8"]
    assert all("off by 0.5" in row["wrong"] for row in document["rows"] if row["kind"] == "bundle")
    assert "sm90 bf16: WRONG: request 0" in capsys.readouterr().out


def test_a_source_that_does_not_compile_is_a_named_line(speed, monkeypatch, tmp_path, capsys):
    def refused(*_):
        raise AttributeError("at 71:4:\n    tl.extra.cuda.gdc_wait()\nmodule has no attribute 'gdc_wait'")

    monkeypatch.setattr(speed.jit, "JitCall", refused)
    status, document, _ = ran(speed, monkeypatch, tmp_path, "--no-gather", "--shapes", "short")
    assert status == 0
    line = "AttributeError: at 71:4: … module has no attribute 'gdc_wait'"
    failed = {row["name"]: row["failed"] for row in document["rows"] if "failed" in row}
    assert failed == {"sm90 jit bf16": line, "sm90 jit fp8": line}
    assert f"sm90 jit fp8: FAILED: {line}" in capsys.readouterr().out


def test_a_candidate_that_drifted_is_printed_as_descriptive_only(speed, monkeypatch, tmp_path, capsys):
    class Slowing(Clock):
        def once(self):
            Clock.now += 1.0
            return 10.0 + Clock.now

    monkeypatch.setattr(speed.script.candidates, "Timed", Slowing)
    _, document, _ = ran(speed, monkeypatch, tmp_path, "--no-jit", "--no-gather", "--shapes", "short")
    assert all(row["drifted"] for row in document["rows"])
    assert capsys.readouterr().out.count("descriptive only: drift") == len(document["rows"])


def test_the_bandwidth_line_names_triton_and_what_else_is_there(speed):
    document = {"torch": "2", "triton": "3.6.0", "peers": {"installed": {}}}
    assert speed.script._beside(document).endswith("JIT: Triton 3.6.0; other kernels: none installed")
    document["peers"] = {"installed": {"flashinfer": "0.6"}}
    assert speed.script._beside(document).endswith("other kernels: flashinfer 0.6")
