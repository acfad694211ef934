"""A target or a family is added by adding files: no Python knows its name."""

import json
import shutil

from tests.specs import SHIPPED, TOY


def test_a_target_and_a_family_added_to_the_shipped_specs_by_files_alone_qualify(tmp_path, assay):
    specs = tmp_path / "specs"
    shutil.copytree(SHIPPED, specs)
    added = (specs / "targets" / "gfx1201.yaml").read_text().replace("gfx1201", "gfx1100")
    added = added.replace("evidence: emulated", "evidence: static")
    (specs / "targets" / "gfx1100.yaml").write_text(added)
    shutil.copy(TOY / "families" / "scale.yaml", specs / "families")
    shutil.copy(TOY / "templates" / "scale.py.j2", specs / "templates")
    (specs / "profiles" / "toy.yaml").write_text(
        "schema: assay.profile/1\nprofile: toy\nsummary: added\nfamilies: {scale: {}, merge_splits: {head_dim: [64]}}\n"
    )
    arguments = ("--specs", specs, "--out", tmp_path / "out", "--profile", "toy", "--update-lock", "--json")
    ran = assay("qualify", "--target", "gfx1100", *arguments)
    assert ran.status == 0, ran.err
    families = {problem["family"] for problem in ran.document["problems"]}
    assert families == {"scale", "merge_splits"}
    inspected = json.loads(assay("inspect", tmp_path / "out" / "gfx1100" / "gfx1100.toy.assay", "--json").out)
    assert {kernel["arch"] for kernel in inspected["kernels"]} == {"gfx1100"}
