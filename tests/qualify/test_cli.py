"""What scripts depend on: exit statuses, JSON alone on standard output, and a message instead of a traceback."""

import json
import os
import subprocess
import sys

import click
import pytest

from assay.bundle import atomic
from assay.codegen import store
from assay.codegen.toolchain import ToolchainError
from assay.qualify import cli, run
from tests.specs import FAMILY, TEMPLATE, TOY, copy_toy, edit

COMMAND = [sys.executable, "-c", "from assay.qualify.entry import main; main()"]


def qualify(assay, out, *options, target="gfx1201", specs=TOY):
    return assay("qualify", "--target", target, "--specs", specs, "--out", out, *options)


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("gfx1202", "allowed: gfx1201, sm90; did you mean gfx1201?"),
        ("GFX1201", "did you mean gfx1201?"),
        ("gfx1201:xnack-", "leave feature suffixes such as :xnack- out"),
        ("amdgcn-amd-amdhsa--gfx1201", "did you mean gfx1201?"),
    ],
)
@pytest.mark.parametrize("evidence", [(), ("--evidence", "device")])
def test_an_unknown_target_is_bad_input_whatever_else_is_asked(assay, tmp_path, target, hint, evidence):
    ran = qualify(assay, tmp_path, *evidence, target=target)
    assert (ran.status, ran.out) == (2, "")
    assert f"target {target!r}: not a known target" in ran.said
    assert hint in ran.said
    assert not list(tmp_path.iterdir())


BAD_USAGE = [
    [],
    ["--only", "width"],
    ["--only", "=64"],
    ["--only", "width="],
    ["--only", ""],
    ["--only", "widht=64"],
    ["--only", "width=65"],
    ["--only", "family=scal"],
    ["--profile", "cor"],
    ["--jobs", "0"],
    ["--jobs", "many"],
    ["--time-limit", "0"],
    ["--time-limit", "nan"],
    ["--time-limit", "inf"],
    ["--time-limit", "1e9"],
    ["--evidence", "believed"],
    ["--check", "--update-lock"],
    ["--specs", "/nowhere"],
    ["--specs", __file__],
    ["--unknown"],
    ["extra"],
]


@pytest.mark.parametrize("options", BAD_USAGE, ids=" ".join)
def test_bad_usage_is_2_with_a_message_and_nothing_written(assay, tmp_path, options):
    target = ["--target", "gfx1201"] if options else []
    ran = assay("qualify", *target, "--specs", TOY, "--out", tmp_path / "out", *options)
    assert (ran.status, ran.out) == (2, "")
    assert ran.said
    assert not (tmp_path / "out").exists()


def test_several_only_are_taken_together(assay, tmp_path):
    def keys(*options):
        ran = assay("plan", "--target", "gfx1201", "--specs", TOY, "--json", *options)
        assert ran.status == 0, ran.err
        return [problem["problem"] for problem in ran.document["targets"]["gfx1201"]["problems"]]

    both = keys("--only", "width=64", "--only", "alignment=16")
    assert both == keys("--only", "width=64,alignment=16")
    assert {(problem["width"], problem["alignment"]) for problem in both} == {(64, 16)}
    either = keys("--only", "width=64", "--only", "width=96")
    assert either == keys("--only", "width=64,width=96")
    assert {problem["width"] for problem in either} == {64, 96}
    ran = qualify(assay, tmp_path, "--update-lock", "--report", "json", "--report", "md,json")
    assert ran.status == 0
    assert {path.name for path in (tmp_path / "gfx1201").iterdir()} == {
        "gfx1201.assay", "qualified.core.lock", "report.json", "report.md",
    }  # fmt: skip


def test_a_second_target_is_refused_and_not_taken_in_place_of_the_first(assay, tmp_path):
    ran = qualify(assay, tmp_path, "--target", "sm90")
    assert ran.status == 2
    assert "'--target': given 2 times; allowed: once" in ran.said
    assert "Missing option '--target'" in assay("qualify", "--specs", TOY).said


def test_no_number_option_of_any_command_takes_what_is_no_finite_number():
    numbers = [
        (f"{name} {option.opts[0]}", option.type)
        for name, command in cli.assay.commands.items()
        for option in command.params
        if isinstance(option.type, click.types.FloatParamType | click.types.IntParamType)
    ]
    assert {"qualify --time-limit", "emulate --atol", "emulate --rtol", "emulate --lds"} <= {
        name for name, _ in numbers
    }
    for name, kind in numbers:
        for value in ("nan", "inf", "-inf", "1e999", "-1e999"):
            with pytest.raises(click.BadParameter):
                pytest.fail(f"{name} takes {value} as {kind.convert(value, None, None)}")


@pytest.mark.parametrize("level", ["device", "retargeted"])
def test_evidence_that_cannot_be_produced_here_is_4_and_never_less(assay, tmp_path, level):
    ran = qualify(assay, tmp_path / "out", "--evidence", level)
    assert ran.status == 4
    assert f"evidence {level!r}: cannot be produced here" in ran.said
    assert not (tmp_path / "out").exists()


def test_an_only_that_leaves_nothing_is_bad_input(assay, tmp_path):
    ran = qualify(assay, tmp_path, "--only", "width=96,alignment=4", target="sm90")
    assert ran.status == 2
    assert "no problem at all" in ran.said


@pytest.mark.parametrize("command", ["qualify", "plan"])
def test_bad_specs_are_2_with_all_faults_on_lines_of_their_own(assay, tmp_path, command):
    specs = copy_toy(tmp_path / "toy")
    edit(specs, FAMILY, "num_warps: 4", "num_warps: 3")
    edit(specs, FAMILY, "width: equal", "width: equals")
    ran = assay(command, "--target", "gfx1201", "--specs", specs)
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.splitlines() == [
        f"{specs}/{FAMILY}:40:47: num_warps: 3; allowed: 1, 2, 4, 8, 16 or 32",
        f"{specs}/{FAMILY}:44:10: width: 'equals'; allowed: equal, multiple_of, at_least or at_most; "
        "did you mean equal?",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ widht }}", "UndefinedError: 'widht' is undefined"),
        ("{% if %}", "Expected an expression"),
        ("{% endfor %}", "Encountered"),
    ],
)
def test_a_template_error_is_2_with_template_and_line(assay, tmp_path, text, said):
    specs = copy_toy(tmp_path / "toy")
    edit(specs, TEMPLATE, "import triton\n", f"import triton\n{text}\n")
    ran = qualify(assay, tmp_path / "out", specs=specs)
    assert ran.status == 2
    assert f"{specs}/{TEMPLATE}:4: {said}" in ran.said
    assert not (tmp_path / "out").exists()


def test_json_is_alone_on_standard_output_and_people_read_standard_error(assay, built, tmp_path):
    out = tmp_path / "out"
    first = qualify(assay, out, "--json")
    assert first.status == 1
    assert first.document["verdict"] == "failed"
    ran = qualify(assay, out, "--json", "--update-lock")
    assert ran.status == 0
    assert ran.document["schema"] == "assay.qualify/1"
    assert ran.document == json.loads((out / "gfx1201/report.json").read_text())
    assert "QUALIFIED: 6 of 6" in ran.said
    for arguments, schema in [
        (["plan", "--specs", TOY], "assay.plan/1"),
        (["inspect", built("gfx1201").bundle], "assay.inspect/1"),
        (["verify", built("gfx1201").bundle], "assay.verify/1"),
        (["explain", built("gfx1201").bundle, "scale", "x_dtype=f32", "width=64", "alignment=16"], "assay.explain/1"),
    ]:
        ran = assay(*arguments, "--json")
        assert (ran.status, ran.document["schema"]) == (0, schema)


def test_the_report_has_what_design_promises(assay, tmp_path):
    document = qualify(assay, tmp_path, "--json", "--update-lock").document
    assert {"schema", "target", "profile", "verdict", "toolchain", "problems"} <= set(document)
    assert (document["target"], document["profile"], document["verdict"]) == ("gfx1201", "core", "qualified")
    assert {"triton", "triton_wheel_sha256"} <= set(document["toolchain"])
    for problem in document["problems"]:
        assert {"family", "problem", "verdict", "chosen", "rejected"} <= set(problem)
        chosen = problem["chosen"]
        assert {"id", "launch", "specialisation", "resources", "evidence", "code_sha256"} <= set(chosen)
        assert chosen["resources"]["stack_bytes"] is None
        assert chosen["resources"]["vgpr_spill_count"] == 0


def test_a_log_says_how_far_it_is_and_what_it_wrote(assay, tmp_path):
    ran = qualify(assay, tmp_path, "--update-lock")
    assert "[6/6] ok scale " in ran.err
    for name in ("gfx1201.assay", "qualified.core.lock", "report.json"):
        assert f"wrote {tmp_path}/gfx1201/{name}" in ran.text


def test_overrides_in_the_shell_are_named_and_change_nothing(assay, built, tmp_path, monkeypatch):
    for name, value in {"TRITON_OVERRIDE_ARCH": "sm_89", "HSA_OVERRIDE_GFX_VERSION": "11.0.0"}.items():
        monkeypatch.setenv(name, value)
    ran = qualify(assay, tmp_path, "--update-lock")
    assert ran.status == 0
    for name in ("HSA_OVERRIDE_GFX_VERSION", "TRITON_OVERRIDE_ARCH"):
        assert f"warning: {name} is set and was ignored: builds do not depend on the shell" in ran.text
    assert (tmp_path / "gfx1201/gfx1201.assay").read_bytes() == built("gfx1201").bundle.read_bytes()


def test_a_damaged_cache_entry_is_compiled_anew_with_a_warning(assay, built, compile_cache, tmp_path):
    qualify(assay, tmp_path / "first", "--update-lock")
    entries = sorted(compile_cache.rglob("*.outcome"))
    originals = {path: path.read_bytes() for path in entries}
    for number, path in enumerate(entries):
        data = originals[path]
        path.write_bytes([data[:-7], bytes(len(data)), b"", data[:90] + bytes([data[90] ^ 4]) + data[91:]][number % 4])
    ran = qualify(assay, tmp_path / "second", "--update-lock")
    assert ran.status == 0
    assert ran.text.count("warning: 6 damaged cache entries were compiled anew: ") == 1
    assert ".outcome and 3 more" in ran.text
    bundle = (tmp_path / "second/gfx1201/gfx1201.assay").read_bytes()
    assert bundle == built("gfx1201").bundle.read_bytes()
    again = qualify(assay, tmp_path / "second")
    assert (again.status, "damaged cache" in again.text) == (0, False)
    for path, data in originals.items():
        path.write_bytes(data)


@pytest.mark.parametrize("which", ["out", "target", "bundle"])
def test_an_output_that_cannot_be_written_is_3_and_says_which(assay, tmp_path, which):
    out = tmp_path / "out"
    if which == "out":
        out.write_text("in the way")
    elif which == "target":
        out.mkdir()
        (out / "gfx1201").write_text("in the way")
    else:
        (out / "gfx1201/gfx1201.assay").mkdir(parents=True)
    ran = qualify(assay, out, "--update-lock")
    assert ran.status == 3
    assert str(out) in ran.said
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize("where", ["bundle", "rename"])
def test_a_full_disk_leaves_the_previous_files_and_nothing_beside_them(assay, out, snapshot, monkeypatch, where):
    before = snapshot(out.out)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr((atomic if where == "bundle" else run).os, "replace", full)
    ran = qualify(assay, out.out)
    assert ran.status == 3
    assert "No space left on device" in ran.said
    assert snapshot(out.out) == before


def test_a_cache_that_cannot_be_used_is_3_and_says_what_to_do(assay, tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("in the way")
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(tmp_path / "cache"))
    ran = qualify(assay, tmp_path / "out")
    assert ran.status == 3
    assert "name another with ASSAY_CACHE_DIR" in ran.said
    assert not (tmp_path / "out").exists()


def test_an_outcome_that_cannot_be_kept_is_3(assay, tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(tmp_path / "cache"))

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.tempfile, "NamedTemporaryFile", full)
    ran = qualify(assay, tmp_path / "out", "--only", "width=64,alignment=16,x_dtype=f32")
    assert ran.status == 3
    assert "No space left on device" in ran.said
    assert not (tmp_path / "out").exists()


def test_no_compiler_is_3_with_the_command_that_installs_it(assay, tmp_path, monkeypatch):
    def missing():
        raise ToolchainError(run.Fault("triton", "not installed", "triton 3.8", "pip install '.[build]'"))

    monkeypatch.setattr(run, "find_toolchain", missing)
    ran = qualify(assay, tmp_path)
    assert ran.status == 3
    assert "pip install '.[build]'" in ran.said


def test_plan_lists_problems_candidates_and_exclusions_without_compiling(assay, monkeypatch):
    monkeypatch.setenv("ASSAY_CACHE_DIR", __file__)  # a compilation would fail
    plan = assay("plan", "--specs", TOY, "--json").document
    assert set(plan["targets"]) == {"gfx1201", "sm90"}
    cuda = plan["targets"]["sm90"]
    assert len(cuda["problems"]) == 4
    assert {entry["reason"] for entry in cuda["excluded"]} == {
        "narrow rows are for halves",
        "halves are aligned on NVIDIA",
    }
    assert cuda["problems"][0]["candidates"][0] == {"unroll": 1, "num_stages": 1, "num_warps": 2}
    said = assay("plan", "--specs", TOY, "--target", "sm90").text
    assert "4 problems, at most 8 candidates to compile" in said
    assert "excluded: 2 of scale: halves are aligned on NVIDIA" in said


def test_a_real_process_prints_json_alone_and_imports_no_compiler_when_warm(built, compile_cache, tmp_path):
    built("gfx1201")
    script = "import sys; from assay.qualify import entry; status = entry.run(sys.argv[1:])"
    script += "; print('triton' in sys.modules or 'torch' in sys.modules, file=sys.stderr); sys.exit(status)"
    command = [sys.executable, "-c", script, "qualify", "--target", "gfx1201", "--specs", str(TOY), "--json"]
    environment = os.environ | {"ASSAY_CACHE_DIR": str(compile_cache)}
    done = subprocess.run(
        [*command, "--out", str(tmp_path), "--update-lock"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "qualified"
    assert done.stderr.splitlines()[-1] == "False"


def test_the_console_script_ends_with_the_status_of_the_command(built):
    good, bad = built("gfx1201").bundle, TOY / FAMILY
    for path, status in ((good, 0), (bad, 1)):
        done = subprocess.run([*COMMAND, "verify", str(path)], capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr


def test_help_and_version_are_no_failures(assay):
    assert assay("--version").status == 0
    assert "qualify" in assay("--help").out
    for command in ("qualify", "plan", "inspect", "verify", "explain"):
        assert assay(command, "--help").status == 0


def test_an_unknown_command_is_bad_usage(assay):
    assert assay("qualfy").status == 2
