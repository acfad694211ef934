"""The page of figures says what drifted, what was not timed and what is not there."""

import json

import pytest

from .documents import LONG, SHORT, decode, five, peers, row


@pytest.fixture
def decode_tables():
    import decode_tables

    return decode_tables


@pytest.fixture
def tables():
    import tables

    return tables


def section(decode_tables, title, document):
    """The text of one section."""
    text = "\n".join(decode_tables.sections(document, "sm90"))
    return next(part for part in text.split("## ") if part.startswith(title))


def cells(text, shape):
    return [cell.strip() for line in text.splitlines() if line.startswith(f"| {shape} ") for cell in line.split("|")][
        2:-1
    ]


def test_a_row_of_the_decode_table(decode_tables):
    text = section(decode_tables, "Decode", decode(*five(LONG, bf16=150, fp8=100, sdpa=125)))
    expected = ["125.0", "150.0 / 150.0", "89 %", "0.83", "100.0 / 100.0", "69 %", "1.25", "1.50"]
    assert cells(text, LONG) == expected


def test_every_cell_that_rests_on_a_drifted_figure_is_marked(decode_tables):
    text = section(decode_tables, "Decode", decode(*five(LONG, bf16=150, fp8=100, sdpa=125, drifted=("fp8",))))
    expected = ["125.0", "150.0 / 150.0", "89 %", "0.83", "100.0 † / 100.0 †", "69 % †", "1.25 †", "1.50 †"]
    assert cells(text, LONG) == expected


def test_the_gather_stands_next_to_the_shapes_that_have_one(decode_tables):
    rows = [*five(LONG, bf16=150, fp8=100, sdpa=125), *five(SHORT, bf16=6, fp8=6, sdpa=8)]
    rows += [row(LONG, f"gather {name} {way}", us) for name, us in (("bf16", 120), ("fp8", 75)) for way in WAYS]
    text = section(decode_tables, "What scattered rows allow", decode(*rows))
    assert cells(text, LONG) == ["120.0 / 150.0", "80 %"] * 2 + ["75.0 / 100.0", "75 %"] * 2
    assert SHORT not in text


WAYS = ("warm", "cold")


def test_the_jit_names_its_triton_and_what_did_not_compile(decode_tables):
    failed = {
        "shape": LONG, "name": "sm90 jit fp8", "kind": "jit", "format": "fp8", "failed": "CompilationError: at 1:2",
    }  # fmt: skip
    jit = [row(LONG, f"sm90 jit bf16 {way}", 300) for way in WAYS]
    text = section(decode_tables, "The same sources", decode(*five(LONG, bf16=150, fp8=100, sdpa=125), failed, *jit))
    assert text.startswith("The same sources under Triton 3.6.0's JIT")
    assert cells(text, LONG) == ["300.0", "2.00", "300.0", "2.00", "-", "-", "-", "-"]
    assert f"- {LONG}: sm90 jit fp8: CompilationError: at 1:2" in text


def test_a_wrong_output_is_on_the_page(decode_tables):
    wrong = {"shape": LONG, "name": "sm90 fp8", "kind": "bundle", "format": "fp8", "wrong": "request 0: off by 1"}
    rows = [r for r in five(LONG, bf16=150, fp8=100, sdpa=125) if "fp8" not in r["name"]]
    text = section(decode_tables, "Decode", decode(wrong, *rows))
    assert cells(text, LONG)[4:] == ["- / -", "-", "-", "-"]
    assert f"Bundle {'5' * 16}." in text
    assert f"- {LONG}: sm90 fp8: request 0: off by 1" in text


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (peers(), "Looked for on the machine: flashinfer, vllm; none installed."),
        (None, "Not looked for"),
        (peers(vllm="0.1"), "Installed: vllm 0.1. Of these none is timed"),
    ],
)
def test_other_kernels_are_named_or_said_to_be_absent(decode_tables, found, expected):
    document = decode(*five(LONG, bf16=150, fp8=100, sdpa=125), peers=found)
    assert expected in section(decode_tables, "Other decode kernels", document)


def test_flashinfer_has_a_table(decode_tables):
    rows = [*five(LONG, bf16=150, fp8=100, sdpa=125), *(row(LONG, f"flashinfer bf16 {way}", 135) for way in WAYS)]
    text = section(decode_tables, "Other decode kernels", decode(*rows, peers=peers(flashinfer="0.6")))
    assert cells(text, LONG) == ["135.0", "0.90"] * 2


def test_regressions_and_targets_are_on_the_page(decode_tables):
    document = decode(*five(LONG, bf16=130, fp8=80, sdpa=125))
    assert f"| {LONG} | BF16 than SDPA | 130.0 | 125.0 | 0.962 |" in section(decode_tables, "Known", document)
    assert f"| {LONG} | FP8, speed of BF16 | 1.55 | 1.625 | holds |" in section(decode_tables, "Targets", document)
    none = decode(*five(SHORT, bf16=6, fp8=6, sdpa=8))
    assert "None in this run." in section(decode_tables, "Known", none)


def write(folder, name, document):
    (folder / name).write_text(json.dumps(document))


def summary(us, *, drifted=False):
    return {"median_us": us, "least_us": us, "drift": 1.0, "drifted": drifted, "samples_us": [us]}


@pytest.fixture
def results(tables, tmp_path, monkeypatch):
    """A folder of results that makes a page."""
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    write(tmp_path, "decode-sm90.json", decode(*five(LONG, bf16=130, fp8=80, sdpa=125)))
    launch = {
        "schema": "assay.benchmark.launch/2", "complete": True, "protocol": {"rounds": 15}, "triton": "3.6.0",
        "host_us": {"plan": summary(10), "jit (2 kernels)": summary(80), "checked": summary(20, drifted=True)},
        "first_call_ms": {"assay": {"median": 16.0}}, "open_ms": 0.7,
    }  # fmt: skip
    write(tmp_path, "launch-sm90.json", launch)
    evidence = {
        "variants": {"a": {"device": "pass"}}, "verdict": "pass", "bundle": {"identity": "0" * 64},
        "device": {"kernel_driver_version": "580"},
    }  # fmt: skip
    write(tmp_path, "sm90.device.json", evidence)
    stored = {"family": "kv_store", "kv_format": "bf16", "head_dim": 128, "share_of_copy": 0.9, "call": summary(20)}
    write(tmp_path, "kv-sm90.json", {"rows_each_of_k_and_v": 64, "results": [stored]})
    shape = {"batch": 1, "history": 8192, "chunk": 2048, "q_heads": 32, "kv_heads": 8}
    timed = {"sm90": 600, "sm90 over FP8": 612, "sdpa flash shared": 900, "sdpa cudnn shared": 1000}
    prefill = [{"shape": shape, "name": name, **summary(us)} for name, us in timed.items()]
    prefill.append({"shape": shape, "name": "sdpa efficient shared", "wrong": "no kernel"})
    write(tmp_path, "extend-sm90.json", {"rows": prefill})
    return tmp_path


def test_the_page_states_the_gate_and_marks_host_figures(tables, results, capsys):  # noqa: ARG001
    assert tables.main() == 0
    page = capsys.readouterr().out
    assert "more than 1.10 times the smallest" in page
    assert "| plan | 10.0 | 0.12 |" in page
    assert "| checked | 20.0 † | 0.25 † |" in page
    assert "| kv_store bf16 | 128 | 20.0 | 90% |" in page
    assert "| 1 x (8,192 + 2,048), 32/8 | 600.0 | 1.50 | 900.0 | flash shared | 612.0 | 1.020 |" in page
    assert "None is slower than SDPA." in page


def test_prefill_that_falls_short_is_listed(tables, results, capsys):
    shape = {"batch": 4, "history": 0, "chunk": 512, "q_heads": 32, "kv_heads": 8}
    timed = {"sm90": 1000, "sm90 over FP8": 1060, "sdpa flash shared": 900}
    write(
        results,
        "extend-sm90.json",
        {"rows": [{"shape": shape, "name": name, **summary(us)} for name, us in timed.items()]},
    )
    assert tables.main() == 0
    page = capsys.readouterr().out
    assert (
        "4 x (0 + 512), 32/8 at 0.90 of SDPA's speed; 4 x (0 + 512), 32/8 over FP8 1.060 times the time over BF16."
        in page
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [({"schema": "assay.benchmark.decode/1"}, "measure again"), ({"complete": False}, "cut short")],
)
def test_other_or_unfinished_results_make_no_page(tables, results, change, message):
    write(results, "decode-sm90.json", {**decode(), **change})
    with pytest.raises(SystemExit, match=message):
        tables.main()
