"""A run compares with the committed lock both ways and accepts a difference only when told to."""

import re

import pytest

from tests.specs import FAMILY, TEMPLATE, TOY, copy_toy, edit

WIDE = "x_dtype=f16 width=96 alignment=16"


@pytest.fixture
def qualify(assay, out):
    """A run over an existing, finished build.  Options may name other specs."""

    def run(*options, specs=TOY):
        return assay("qualify", "--target", "gfx1201", "--specs", specs, "--out", out.out, *options)

    return run


def change_lock(out, change):
    text = out.lock.read_text()
    changed = change(text)
    assert changed != text
    out.lock.write_text(changed)


def figure(name, difference):
    """Changes one figure of the row of the wide problem."""
    return lambda text: re.sub(
        rf"({re.escape(WIDE)} .*\b{name}=)(\d+)", lambda m: f"{m[1]}{int(m[2]) + difference}", text, count=1
    )


def test_nothing_changed_is_qualified_and_writes_the_same_bundle(qualify, out):
    before = out.bundle.read_bytes()
    ran = qualify()
    assert ran.status == 0
    assert "gfx1201 core: QUALIFIED: 6 of 6 problems" in ran.text
    assert out.bundle.read_bytes() == before


DIFFERENCES = {
    "new": (lambda text: re.sub(rf".*{re.escape(WIDE)} .*\n", "", text), f"new: scale {WIDE}"),
    "gone": (
        lambda text: text + re.sub("width=96", "width=1024", text.splitlines()[-1]) + "\n",
        "gone: scale x_dtype=f16 width=1024",
    ),
    "worse": (figure("vgpr_count", -1), f"worse: scale {WIDE}: vgpr_count "),
    "better": (figure("code_bytes", +4), f"better: scale {WIDE}: code_bytes "),
    "changed": (figure("max_threads", +32), f"changed: scale {WIDE}: max_threads 96 -> 64"),
}


@pytest.mark.parametrize("kind", DIFFERENCES)
def test_each_kind_of_difference_fails_until_it_is_accepted(qualify, out, snapshot, kind):
    change, said = DIFFERENCES[kind]
    good = out.lock.read_text()
    change_lock(out, change)
    before = snapshot(out.out)
    ran = qualify()
    assert ran.status == 1
    assert said in ran.text
    assert "1 difference to" in ran.text
    assert "run the same command with --update-lock to accept" in ran.text
    assert "LOCK DIFFERS" in ran.text
    assert f"no bundle was written; {out.bundle} is older than this run" in ran.text
    after = snapshot(out.out)
    assert after.pop("gfx1201/report.json") != before.pop("gfx1201/report.json")
    assert after == before
    assert qualify("--update-lock").status == 0
    assert out.lock.read_text() == good
    assert qualify().status == 0


def test_an_update_that_takes_evidence_out_of_the_lock_says_so(qualify, out):
    change_lock(out, lambda text: text.replace("static=pass", "static=pass emulated=pass"))
    assert "evidence emulated" not in qualify().text
    ran = qualify("--update-lock")
    assert ran.status == 0
    assert "had evidence emulated for 6 of these rows, this run has not; --evidence emulated keeps it" in ran.text
    assert "had evidence" not in qualify("--update-lock").text


def test_without_a_lock_everything_is_new_and_the_command_is_printed(qualify, out):
    out.lock.unlink()
    bundle = out.bundle.read_bytes()
    ran = qualify()
    assert ran.status == 1
    assert ran.text.count("new: scale ") == 6
    assert f"no lock at {out.lock}: everything is new; run the same command with --update-lock to accept" in ran.text
    assert not out.lock.exists()
    assert out.bundle.read_bytes() == bundle


ACCEPT = "with --update-lock to accept"


def test_where_no_bundle_lay_none_is_called_older(qualify, out):
    out.lock.unlink()
    out.bundle.unlink()
    ran = qualify()
    assert "no bundle was written gfx1201 core: LOCK DIFFERS" in ran.text
    assert "no bundle was written" not in qualify("--update-lock").text


def test_to_accept_is_not_the_advice_where_a_gate_fails(qualify, out, tmp_path):
    """--update-lock would not write the lock then."""
    specs = copy_toy(tmp_path / "toy")
    edit(specs, FAMILY, "tolerance:\n", "budgets: {code_bytes: 1}\n\ntolerance:\n")
    out.lock.unlink()
    ran = qualify(specs=specs)
    assert "0 of 6 problems have a qualified variant" in ran.text
    assert f"no lock at {out.lock}: everything is new" in ran.text
    assert ACCEPT not in ran.text
    assert qualify("--update-lock", specs=specs).status == 1
    assert not out.lock.exists()


def test_to_accept_is_not_the_advice_where_a_candidate_does_not_compile(qualify, out, tmp_path):
    specs = copy_toy(tmp_path / "toy")
    edit(specs, TEMPLATE, "tl.store(", "tl.sture(")
    out.lock.unlink()
    ran = qualify(specs=specs)
    assert "candidates did not compile" in ran.text
    assert ACCEPT not in ran.text


def test_to_accept_is_not_the_advice_where_the_bundle_is_too_large(qualify, out, tmp_path):
    specs = copy_toy(tmp_path / "toy")
    edit(specs, "targets/gfx1201.yaml", "  sgprs: 108\n", "  sgprs: 108\n  bundle_bytes: 1\n")
    change_lock(out, figure("vgpr_count", -1))
    ran = qualify(specs=specs)
    assert f"1 difference to {out.lock}" in ran.text
    assert "NOT QUALIFIED" in ran.text
    assert ACCEPT not in ran.text
    assert qualify("--update-lock", specs=specs).status == 1


def test_the_advice_leaves_out_what_accepting_excludes(qualify, out):
    change_lock(out, figure("vgpr_count", -1))
    assert f"run the same command without --check and {ACCEPT}" in qualify("--check").text
    change_lock(out, lambda text: re.sub(r"triton 3\.\S+", "triton 3.7.9", text))
    part = qualify("--only", "width=96")
    assert f"run the same command without --only and {ACCEPT}" in part.text
    assert f"run the same command {ACCEPT}" in qualify().text


def test_a_lock_of_another_compiler_build_ends_in_3_with_the_differences(qualify, out, snapshot):
    change_lock(out, lambda text: re.sub(r"triton 3\.\S+", "triton 3.7.9", text))
    change_lock(out, figure("vgpr_count", -1))
    before = snapshot(out.out)
    ran = qualify()
    assert ran.status == 3
    assert "was made by another compiler build: triton 3.7.9 (" in ran.text
    assert f"worse: scale {WIDE}: vgpr_count" in ran.text
    assert "OTHER COMPILER BUILD: 6 of 6 problems have a qualified variant" in ran.text
    assert snapshot(out.out)["gfx1201/gfx1201.assay"] == before["gfx1201/gfx1201.assay"]


def test_gates_are_judged_before_the_compiler_build_is(qualify, out, tmp_path):
    change_lock(out, lambda text: re.sub("triton_wheel_sha256 ..", "triton_wheel_sha256 00", text))
    assert qualify().status == 3
    specs = copy_toy(tmp_path / "toy")
    edit(specs, FAMILY, "tolerance:\n", "budgets: {vgpr_count: 1}\n\ntolerance:\n")
    assert qualify(specs=specs).status == 1


def test_a_lock_of_another_target_confirms_nothing(qualify, built):
    ran = qualify("--lock", built("sm90").lock)
    assert ran.status == 1
    assert "is for sm90 core, this run is gfx1201 core" in ran.text


@pytest.mark.parametrize("text", ["", "garbage\n", None])
def test_a_lock_that_is_none_fails_and_can_be_written_anew(qualify, out, text):
    good = out.lock.read_text()
    out.lock.write_text(good + good.splitlines()[-1] + "\n" if text is None else text)
    ran = qualify()
    assert ran.status == 1
    assert "write it anew with --update-lock" in ran.text
    assert qualify("--update-lock").status == 0
    assert out.lock.read_text() == good


def test_a_folder_in_the_place_of_the_lock_is_refused(qualify, out):
    out.lock.unlink()
    out.lock.mkdir()
    assert qualify().status == 1


def test_check_judges_and_writes_nothing(qualify, out, snapshot):
    change_lock(out, figure("vgpr_count", -1))
    before = snapshot(out.out)
    assert qualify("--check").status == 1
    assert snapshot(out.out) == before
    change_lock(out, figure("vgpr_count", +1))
    before = snapshot(out.out)
    ran = qualify("--check")
    assert ran.status == 0
    assert "wrote" not in ran.text
    assert snapshot(out.out) == before
    assert qualify("--check", "--update-lock").status == 2


def test_check_makes_no_folder(assay, tmp_path):
    ran = assay("qualify", "--target", "gfx1201", "--specs", TOY, "--out", tmp_path / "none", "--check")
    assert ran.status == 1
    assert not (tmp_path / "none").exists()


def test_a_lock_that_was_compared_and_matches_is_named(qualify, out):
    """Without the line a run that compared nothing looks like one that compared everything."""
    said = f"lock: compared with {out.lock}: "
    assert f"{said}6 rows, no difference" in qualify().text
    assert f"{said}6 rows, no difference" in qualify("--check").text
    assert f"{said}4 of its 6 rows, no difference" in qualify("--only", "width=64").text
    assert said not in qualify("--update-lock").text
    change_lock(out, figure("vgpr_count", -1))
    assert said not in qualify().text
    out.lock.unlink()
    assert said not in qualify().text


def test_only_compares_its_part_and_leaves_the_full_bundle(qualify, out, snapshot):
    change_lock(out, DIFFERENCES["new"][0])
    before = snapshot(out.out)
    assert qualify("--only", "width=64").status == 0, "the difference is in another part"
    after = snapshot(out.out)
    assert after["gfx1201/gfx1201.assay"] == before["gfx1201/gfx1201.assay"]
    assert "gfx1201/gfx1201.only.assay" in after
    assert qualify("--only", "width=96").status == 1


def test_only_with_update_lock_updates_its_part_alone(qualify, out):
    good = out.lock.read_text()
    change_lock(out, figure("vgpr_count", -1))
    change_lock(out, lambda text: re.sub(r"(width=64 .*\bcode_bytes=)(\d+)", r"\g<1>1", text))
    half_wrong = re.sub(r"(width=64 .*\bcode_bytes=)(\d+)", r"\g<1>1", good)
    assert qualify("--only", "width=96", "--update-lock").status == 0
    assert out.lock.read_text() == half_wrong
    assert qualify("--only", "width=64", "--update-lock").status == 0
    assert out.lock.read_text() == good


def test_only_does_not_mix_rows_of_two_compiler_builds(qualify, out):
    change_lock(out, lambda text: re.sub(r"triton 3\.\S+", "triton 3.7.9", text))
    before = out.lock.read_text()
    ran = qualify("--only", "width=96", "--update-lock")
    assert ran.status == 1
    assert "update the whole lock: leave --only out" in ran.text
    assert out.lock.read_text() == before


def test_a_template_change_that_changes_no_object_changes_no_lock(qualify, out, tmp_path):
    specs = copy_toy(tmp_path / "toy")
    edit(specs, TEMPLATE, "times a factor", "times one factor")
    lock = out.lock.read_text()
    assert qualify(specs=specs).status == 0
    assert out.lock.read_text() == lock


def test_a_lock_holds_no_path_no_time_and_no_float(built):
    text = built("gfx1201").lock.read_text()
    assert "/tmp" not in text
    assert not re.search(r"\d\.\d", text.replace("triton 3.8.0", ""))
    assert text.count("\n") == 6 + 6
