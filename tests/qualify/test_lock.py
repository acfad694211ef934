"""The lock's text: what it holds comes back, and what is no lock is refused line by line."""

import pytest

from assay.codegen.toolchain import Toolchain
from assay.qualify import terminal
from assay.qualify.lock import Lock, LockChange, LockError, LockRow, compare, read_lock

TOOLCHAIN = Toolchain("3.8.0", "ab" * 32)


def row(key="scale width=64", launch="num_warps=4", evidence="static=pass", **figures):
    return LockRow(key, launch, tuple(({"vgpr_count": 24, "code_bytes": 512} | figures).items()), evidence)


LOCK = Lock("gfx1201", "core", TOOLCHAIN, (row(), row("scale width=96", vgpr_count=30)))


def test_a_lock_comes_back_as_it_was_written(tmp_path):
    (tmp_path / "lock").write_text(str(LOCK))
    assert read_lock(tmp_path / "lock") == LOCK
    (tmp_path / "lock").write_text("\n# a comment\n" + str(LOCK).replace("\n", "\n\n# another\n"))
    assert read_lock(tmp_path / "lock") == LOCK
    assert read_lock(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("now", "kind", "details"),
    [
        (row(vgpr_count=25), "worse", (("vgpr_count", "24", "25"),)),
        (row(vgpr_count=23), "better", (("vgpr_count", "24", "23"),)),
        (row(vgpr_count=23, code_bytes=513), "changed", (("vgpr_count", "24", "23"), ("code_bytes", "512", "513"))),
        (row(launch="num_warps=8"), "changed", (("launch", "num_warps=4", "num_warps=8"),)),
        (row(launch="num_warps=8", vgpr_count=23), "changed", None),
        (row(launch="num_warps=8", vgpr_count=25), "changed", None),
        (row(max_threads=64), "changed", (("max_threads", "absent", "64"),)),
        (row(evidence="static=pass device=pass"), "changed", None),
    ],
)
def test_every_difference_has_its_kind_and_says_before_and_now(now, kind, details):
    (change,) = compare([row()], [now])
    assert (change.kind, change.key) == (kind, "scale width=64")
    if details is not None:
        assert change.details == details


def test_new_and_gone_are_differences_and_equal_locks_have_none():
    changes = compare([row("a x=1"), row("b x=1")], [row("b x=1"), row("c x=1")])
    assert [str(change) for change in changes] == ["new: c x=1", "gone: a x=1"]
    assert compare(LOCK.rows, LOCK.rows) == []


def faults_of(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(LockError) as caught:
        read_lock(path)
    return [str(fault) for fault in caught.value.faults]


def test_every_bad_line_is_reported_with_its_number(tmp_path):
    text = str(LOCK) + "garbage\nscale width=64 | num_warps=4 | vgpr_count=1 | static=pass\na | b | vgpr_count=x | c\n"
    faults = faults_of(tmp_path / "lock", text)
    lines = text.splitlines()
    assert [fault.partition(": ")[0] for fault in faults] == [
        f"{tmp_path / 'lock'}:{len(lines) - n}" for n in (2, 1, 0)
    ]
    assert "a line that is no row" in faults[0]
    assert "a problem that stands there twice" in faults[1]
    assert all("write it anew with --update-lock" in fault for fault in faults)


@pytest.mark.parametrize(
    "figure", ["vgpr_count=", "vgpr_count", "=4", "vgpr_count=-1", "vgpr_count=1.5", "n=" + "9" * 5000]
)
def test_a_figure_that_is_no_integer_is_refused(tmp_path, figure):
    text = str(LOCK) + f"scale width=1 | num_warps=4 | {figure} | static=pass\n"
    assert "a line that is no row" in faults_of(tmp_path / "lock", text)[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("schema assay.lock/1", "schema assay.lock/2"),
        ("schema assay.lock/1\n", ""),
        ("target gfx1201\n", ""),
        ("target gfx1201\n", "target gfx1201\ntarget gfx1200\n"),
        ("triton 3.8.0\n", "triton\n"),
    ],
)
def test_a_header_that_is_not_whole_is_refused(tmp_path, old, new):
    assert "header " in faults_of(tmp_path / "lock", str(LOCK).replace(old, new))[0]


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"\0" * 100, b"{}"])
def test_what_is_no_lock_at_all_is_refused(tmp_path, text):
    assert len(faults_of(tmp_path / "lock", text)) == 1


def test_a_lock_cut_off_anywhere_is_refused_or_lacks_whole_rows(tmp_path):
    text = str(LOCK)
    for length in range(len(text)):
        (tmp_path / "lock").write_text(text[:length])
        try:
            found = read_lock(tmp_path / "lock")
        except LockError:
            continue
        assert found != LOCK or text[length:] == "\n"


def test_a_spill_that_rose_is_worse_whatever_else_fell():
    before = row(vgpr_count=200, scratch_bytes=0)
    (change,) = compare([before], [row(launch="num_warps=8", vgpr_count=100, scratch_bytes=4)])
    assert change.kind == "worse"


def test_a_run_at_a_lower_level_of_evidence_says_nothing_of_a_higher_one():
    both = row(evidence="static=pass emulated=pass")
    assert compare([both], [row(evidence="static=pass")]) == []
    assert compare([row(evidence="static=pass")], [both])[0].kind == "changed"
    assert compare([both], [row(evidence="static=pass emulated=fail")])[0].kind == "changed"


def test_a_difference_is_one_line_in_a_log_however_long(capsys, monkeypatch):
    """Wrapped inside a figure, no search of the log would find it."""
    monkeypatch.delenv("COLUMNS", raising=False)
    change = LockChange("changed", "scale " + "axis=value " * 40, (("vgpr_count", "108", "61"),))
    terminal.print_changes(terminal.console(), [change])
    (line,) = capsys.readouterr().out.splitlines()
    assert line == str(change)
