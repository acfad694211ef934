"""Host figures are taken by the protocol, with stand-ins for the device and the kernels."""

import json
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")


@pytest.fixture
def cost(monkeypatch):
    import gpu

    monkeypatch.setattr(gpu, "DEVICE", "cpu")
    import launch_cost

    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a device")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=0))
    monkeypatch.setattr(launch_cost, "LAUNCHES", 2)
    out = torch.zeros(1)
    plan = SimpleNamespace(
        out=out, workspace=out, launch=lambda *_: out, starts=(lambda _: None,) * 2, stages=(None,) * 2
    )
    kernels = SimpleNamespace(plan=lambda *_, **__: plan, decode_attention=lambda *_, **__: out)
    monkeypatch.setattr(launch_cost.assay.runtime, "load", lambda *_, **__: kernels)
    jit = SimpleNamespace(both=lambda: out, stage_1=lambda: None)
    monkeypatch.setattr(launch_cost, "JitCall", lambda *_: jit)
    monkeypatch.setattr(launch_cost, "_bare", lambda _: lambda: None)
    one = {"median": 1.0, "samples": [1.0]}
    parts = (*launch_cost.PARTS, *launch_cost.WITHIN, "total")
    monkeypatch.setattr(launch_cost, "_first_call_parts", lambda _: dict.fromkeys(parts, one))
    monkeypatch.setattr(launch_cost, "_first_jit_calls", lambda _: {"jit, empty cache": one})
    monkeypatch.setattr(launch_cost, "_open", lambda _: 0.5)
    return launch_cost


def test_every_way_has_its_samples_and_its_drift(cost, monkeypatch, tmp_path, capsys):
    path = tmp_path / "launch.json"
    monkeypatch.setattr(sys, "argv", ["launch_cost.py", "x.assay", "--rounds", "6", "--out", str(path)])
    assert cost.main() == 0
    document = json.loads(path.read_text())
    assert list(document)[:2] == ["schema", "protocol"]
    assert document["protocol"].items() >= {"rounds": 6, "drift_limit": 1.10}.items()
    assert document["complete"] is True
    assert len(document["host_us"]) == 8
    printed = capsys.readouterr().out.splitlines()
    for name, figures in document["host_us"].items():
        assert len(figures["samples_us"]) == 6
        (line,) = [line for line in printed if line.strip().startswith(name)]
        assert ("descriptive only" in line) is figures["drifted"]


def test_the_gate_is_on_file_before_anything_is_measured(cost, monkeypatch, tmp_path):
    path, seen = tmp_path / "launch.json", []
    monkeypatch.setattr(cost, "_host", lambda *_: seen.append(json.loads(path.read_text())) or {})
    monkeypatch.setattr(sys, "argv", ["launch_cost.py", "x.assay", "--out", str(path)])
    cost.main()
    assert (seen[0]["protocol"]["drift_limit"], seen[0]["complete"], "host_us" in seen[0]) == (1.10, False, False)
