"""The generic way to device evidence takes the kv families without knowing them."""

from assay.qualify.device.evidence import read_evidence
from tests.qualify import standin_device


def test_every_row_runs_on_a_device_directly_and_from_a_graph(kv_bundle, tmp_path, monkeypatch, capsys):
    standin_device.shorten(monkeypatch, cases=1)
    assert standin_device.run(kv_bundle, tmp_path / "e.json") == 0
    assert "PASS: 36 of 36 variants passed on a stand-in" in capsys.readouterr().out
    evidence = read_evidence(tmp_path / "e.json")
    for id, judged in evidence.variants.items():
        assert [check.how for check in judged.checks] == ["direct", "graph"]
        assert {check.rows for check in judged.checks} == {(id,)}
