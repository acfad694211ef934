"""The workflow in docs/ci: valid for GitHub, and with the properties that its README promises."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from assay.codegen.specs import load_specs
from assay.qualify import emulating, interpreting
from tests.specs import SHIPPED

WORKFLOW = Path(__file__).parents[3] / "docs/ci/qualify.yml"


@pytest.fixture(scope="module")
def job():
    return yaml.safe_load(WORKFLOW.read_text())["jobs"]["qualify"]


def step(job, uses=None, name=None):
    (found,) = [s for s in job["steps"] if (s.get("name") == name if name else uses in s.get("uses", ""))]
    return found


@pytest.mark.parametrize("schema", ["vendor.github-workflows", "custom.github-workflows-require-timeout"])
def test_the_linter_accepts_it(schema, tmp_path):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    ran = subprocess.run([*command, str(WORKFLOW)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    # The same linter refuses a broken one, so that the line above means something.
    broken = tmp_path / "broken.yml"
    broken.write_text(WORKFLOW.read_text().replace("timeout-minutes:", "timeout_minutes:"))
    assert subprocess.run([*command, str(broken)], capture_output=True, check=False).returncode == 1


def test_every_shipped_target_has_a_committed_record_and_is_built(job):
    recorded = {path.parent.name for path in (SHIPPED.parent / "artifacts").glob("*/qualified.core.lock")}
    assert recorded == set(load_specs(SHIPPED).targets)
    assert set(job["strategy"]["matrix"]["target"]) == recorded
    assert job["strategy"]["fail-fast"] is False


def test_actions_are_pinned_to_a_major_version(job):
    uses = [item["uses"] for item in job["steps"] if "uses" in item]
    assert len(uses) >= 6
    assert all(re.fullmatch(r"(actions|github)/[a-z/-]+@v\d+", item) for item in uses)


def test_permissions_are_the_least(job):
    assert yaml.safe_load(WORKFLOW.read_text())["permissions"] == {}
    assert job["permissions"] == {"contents": "read", "security-events": "write", "actions": "read"}
    assert step(job, uses="actions/checkout")["with"] == {"persist-credentials": False}


def test_the_gate_decides_and_nothing_swallows_its_status(job):
    gate = step(job, name="Qualify")
    assert gate["run"] == """make qualify TARGET="$TARGET" ARGS='--report json,junit,sarif,md'"""
    assert "if" not in gate
    assert "continue-on-error" not in WORKFLOW.read_text()


def test_reports_come_always_and_the_bundle_on_success_alone(job):
    for name in ("Summary", "Code scanning", "Reports"):
        assert "always()" in step(job, name=name)["if"]
    assert step(job, name="Bundle")["if"] == "success()"
    assert "GITHUB_STEP_SUMMARY" in step(job, name="Summary")["run"]


def test_the_cache_is_one_folder_and_is_saved_after_a_failure_too(job):
    restore, save = step(job, uses="cache/restore"), step(job, uses="cache/save")
    folder = step(job, name="Qualify")["env"]["ASSAY_CACHE_DIR"]
    assert restore["with"]["path"] == save["with"]["path"] == folder
    assert "kernel_specs/**" in restore["with"]["key"]
    assert ".lock" in restore["with"]["key"]
    assert "always()" in save["if"]


def test_the_key_of_the_cache_covers_whatever_judges_a_verdict(job, monkeypatch):
    """After an edit there every verdict is made anew; under an old key none of them would be saved."""
    judging = set()
    for level in (emulating, interpreting):
        monkeypatch.setattr(level, "hash_of_sources", lambda packages, _: judging.update(packages) or "hash")
        level.judged_by.__wrapped__()
    folders = {package.removeprefix("assay.") for package in judging} | {"qualify"}
    assert {"emulator", "reference"} < folders
    key = step(job, uses="cache/restore")["with"]["key"]
    for folder in folders:
        assert f"'{folder}/**'" in key
    assert "'pyproject.toml'" in key
    assert " " not in re.sub(r"\$\{\{.*?\}\}", "", key), "a folded line must not leave a space in the key"


def test_scripts_take_matrix_values_from_the_environment_and_are_valid_bash(job):
    for item in job["steps"]:
        if "run" in item:
            assert "${{" not in item["run"], "an expression in a script is an injection"
            subprocess.run(["bash", "-n"], input=item["run"], text=True, check=True)
