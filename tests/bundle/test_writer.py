import errno
import os
import re
import subprocess
import sys

import pytest

from assay.bundle import Bundle, BundleError, Condition, KernelArgument, write_bundle


def faults_of(contents, path, **budgets):
    with pytest.raises(BundleError) as caught:
        write_bundle(path, contents, **budgets)
    assert not path.exists()
    return str(caught.value)


def first_row(small, **changes):
    return small._replace(rows=(small.rows[0]._replace(**changes), *small.rows[1:]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target": "gfx1202"}, "target gfx1202 is not in the manifest; allowed: gfx1201, sm120; did you mean gfx1201"),
        ({"family": "copi"}, "family copi is not in the manifest.*did you mean copy"),
        ({"object": "0" * 64}, "code object 0+ is missing"),
        ({"object": "abc"}, "object: 'abc'; allowed: a SHA-256"),
        ({"lds_bytes": 65_537}, "65,537 bytes of launch-time shared memory; allowed: at most 65,536 on gfx1201"),
        ({"lds_bytes": True}, "lds_bytes: True; allowed: an integer"),
        ({"wavefront_size": 64}, "wavefront_size 64; allowed: 32 on gfx1201"),
        (
            {"launch": {"programmatic_dependent_launch": True}},
            "launch: programmatic_dependent_launch True on hip; allowed: true or false, and true for cuda alone",
        ),
        ({"num_warps": 3}, "num_warps: 3; allowed: 1, 2, 4, 8, 16 or 32"),
        ({"hidden_arguments": 2}, "hidden_arguments: 2; allowed: 1, as listed"),
        ({"launch": {"BLOCK_N": 64}}, "launch: .*as its variant record says"),
        ({"launch": {"BLOCK_N": 0.5}}, "launch.BLOCK_N: 0.5"),
        ({"grid": ()}, "grid: .*one to three axes"),
        ({"conditions": (Condition("n", "eqq", 1),)}, "operator 'eqq'; allowed: eq, .*did you mean eq"),
        ({"conditions": (Condition("n", "one_of", ()),)}, "one_of .*not empty"),
        ({"conditions": (Condition("n", "one_of", [1]),)}, "one_of .*a tuple"),
        ({"conditions": (Condition("n", "multiple_of", 0),)}, "multiple_of 0; allowed: an integer of at least 1"),
        ({"conditions": (Condition("n", "at_most", "9"),)}, "at_most '9'; allowed: a 64-bit integer"),
        ({"conditions": (Condition("n", "eq", 1.5),)}, "eq 1.5 .*float"),
        ({"conditions": (Condition("force_row", "eq", 1),)}, "a reserved word"),
        (
            {"arguments": (KernelArgument("x", 0, 4, "pointer"),), "hidden_arguments": 0},
            "pointer of 4 bytes",
        ),
        (
            {
                "arguments": (KernelArgument("x", 0, 8, "pointer"), KernelArgument("n", 4, 4, "i32")),
                "hidden_arguments": 0,
            },
            "argument n: offset 4; allowed: at least 8",
        ),
    ],
)
def test_a_row_that_does_not_hold_together_is_refused(small, tmp_path, changes, said):
    assert re.search(said, faults_of(first_row(small, **changes), tmp_path / "x"))


def test_all_faults_are_given_at_once(small, tmp_path):
    rows = list(small.rows)
    rows[0] = rows[0]._replace(lds_bytes=10**6)
    rows[1] = rows[1]._replace(object="0" * 64)
    variants = tuple(variant._replace(source="other") for variant in small.variants)
    text = faults_of(small._replace(rows=tuple(rows), variants=variants), tmp_path / "x")
    assert "launch-time shared memory" in text
    assert "is missing" in text
    assert text.count("the hash of its source text") == len(variants)


def test_the_order_of_the_faults_does_not_depend_on_the_order_of_the_contents(small, tmp_path):
    rows = tuple(row._replace(lds_bytes=10**6) for row in small.rows)
    one = faults_of(small._replace(rows=rows), tmp_path / "x")
    assert one == faults_of(small._replace(rows=rows[::-1], variants=small.variants[::-1]), tmp_path / "x")


def test_duplicate_ids_are_refused(small, tmp_path):
    text = faults_of(
        small._replace(rows=small.rows + small.rows[:1], variants=small.variants + small.variants[:1]), tmp_path / "x"
    )
    assert "row aligned: stands 2 times" in text
    assert "variant aligned: stands 2 times" in text


def test_two_rows_that_nothing_chooses_between_are_refused(factory, tmp_path):
    one = [("gqa", "one_of", (4, 8)), ("head_dim", "eq", 128)]
    two = [("head_dim", "eq", 128), ("gqa", "one_of", (8, 4))]
    text = faults_of(factory.make_contents([factory.make_row("a", one), factory.make_row("b", two)]), tmp_path / "x")
    assert "row copy/b: the conditions and preference of row a" in text


def test_rows_that_differ_in_preference_target_or_type_are_not_ambiguous(factory, tmp_path):
    rows = [
        factory.make_row("a", [("n", "eq", 1)]),
        factory.make_row("b", [("n", "eq", 1)], preference=1),
        factory.make_row("c", [("n", "eq", 1)], target="sm120"),
        factory.make_row("d", [("n", "eq", True)]),
    ]
    write_bundle(tmp_path / "x", factory.make_contents(rows))


@pytest.mark.parametrize("bad", [b"", None, "text"])
def test_an_empty_object_is_refused(small, tmp_path, bad):
    key = next(iter(small.objects))
    assert f"object {key}" in faults_of(small._replace(objects=small.objects | {key: bad}), tmp_path / "x")


def test_what_no_row_launches_is_refused(factory, small, tmp_path):
    raw = b"spare"
    text = faults_of(small._replace(objects=small.objects | {factory.sha(raw): raw}), tmp_path / "x")
    assert "no row launches it" in text
    assert "no row launches it" in faults_of(small._replace(rows=small.rows[1:]), tmp_path / "x")
    assert "variant record is missing" in faults_of(small._replace(variants=small.variants[1:]), tmp_path / "x")


def test_absolute_or_climbing_source_names_are_refused(small, factory, tmp_path):
    for name in ("/home/a/x.yaml", "../x.yaml", "C:\\x.yaml"):
        manifest = small.manifest._replace(sources={name: factory.sha("x")})
        assert "manifest: sources" in faults_of(small._replace(manifest=manifest), tmp_path / "x")


def test_a_bundle_over_its_budget_is_refused_naming_the_largest_objects(small, tmp_path):
    text = faults_of(small, tmp_path / "x", size_budget=4096)
    assert "bundle size" in text
    assert "at most 4,096" in text
    text = faults_of(small, tmp_path / "x", target_budgets={"gfx1201": 100, "sm120": 10_000})
    assert "target gfx1201" in text
    assert "sm120" not in text
    write_bundle(tmp_path / "x", small, size_budget=100_000, target_budgets={"gfx1201": 10_000})


@pytest.mark.parametrize("step", ["open", "fsync", "replace", "write"])
@pytest.mark.parametrize(
    ("code", "hint"), [(errno.ENOSPC, "free some space"), (errno.EROFS, "can be written"), (errno.EACCES, "written")]
)
def test_a_disk_that_fails_leaves_the_old_bundle_and_nothing_else(small, tmp_path, monkeypatch, step, code, hint):
    path = tmp_path / "x.assay"
    write_bundle(path, small)
    before = path.read_bytes()

    def fail(*_, **__):
        raise OSError(code, os.strerror(code))

    if step == "write":  # The file object's own write: hand replace_file a file that is full.
        monkeypatch.setattr("builtins.open", lambda fd, *_: _FullFile(fd, code))
    else:
        monkeypatch.setattr(os, step, fail)
    with pytest.raises(BundleError) as caught:
        write_bundle(path, small._replace(manifest=small.manifest._replace(profile="full")))
    monkeypatch.undo()
    assert str(path) in str(caught.value)
    assert os.strerror(code) in str(caught.value)
    assert hint in str(caught.value)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.assay"]


def test_a_folder_that_does_not_exist_is_named(small, tmp_path):
    with pytest.raises(BundleError, match=r"absent.*the folder must exist"):
        write_bundle(tmp_path / "absent" / "x", small)


def test_an_interrupted_write_leaves_nothing(small, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_bundle(tmp_path / "x", small)
    assert os.listdir(tmp_path) == []


def test_what_a_killed_writer_left_is_removed_by_the_next_one(small, tmp_path):
    path = tmp_path / "x[1].assay"
    script = (
        "import os, signal, sys; from assay.bundle.atomic import replace_file;"
        "parts = (b'x' if i < 3 else os.kill(os.getpid(), signal.SIGKILL) for i in range(9));"
        "replace_file(sys.argv[1], parts)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)])
    assert done.returncode < 0
    assert len(os.listdir(tmp_path)) == 1
    write_bundle(path, small)
    assert os.listdir(tmp_path) == [path.name]


def test_a_writer_at_work_keeps_its_file_while_others_write(small, tmp_path):
    path = tmp_path / "x"

    def parts():
        yield b"a"
        write_bundle(path, small)
        yield b"b"

    from assay.bundle.atomic import replace_file

    replace_file(path, parts())
    assert path.read_bytes() == b"ab"
    assert os.listdir(tmp_path) == ["x"]


def test_eight_writers_of_one_bundle_all_succeed(tmp_path, factory):
    path = tmp_path / "x.assay"
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import factory; from assay.bundle import write_bundle;"
        "contents = factory.make_contents(factory.small_rows());"
        "[write_bundle(sys.argv[2], contents) for _ in range(10)]"
    )
    command = [sys.executable, "-c", script, os.path.dirname(__file__), str(path)]
    running = [subprocess.Popen(command) for _ in range(8)]
    assert [process.wait() for process in running] == [0] * 8
    assert os.listdir(tmp_path) == ["x.assay"]
    alone = tmp_path / "alone"
    write_bundle(alone, factory.make_contents(factory.small_rows()))
    assert alone.read_bytes() == path.read_bytes()


def test_names_of_any_length_stay_within_the_file_systems_limit(small, tmp_path):
    path = tmp_path / ("n" * 240)
    write_bundle(path, small)
    Bundle.open(path).close()


def test_the_file_has_ordinary_permissions(small, tmp_path):
    write_bundle(tmp_path / "x", small)
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o666 & ~mask


class _FullFile:
    def __init__(self, descriptor, code):
        self._descriptor, self._code = descriptor, code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self._descriptor)

    def write(self, _):
        raise OSError(self._code, os.strerror(self._code))
