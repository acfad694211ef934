"""What devices have attested stays with the very same bundle, and with no other."""

import json

from assay.bundle import Bundle, attach_evidence
from tests.specs import TEMPLATE, TOY, copy_toy, edit

DEVICE = {
    "device": {"schema": "assay.evidence/1", "level": "device", "variants": {}},
    "device-run/0123456789abcdef": {"schema": "assay.device-run/1", "evidence": {}},
}


def attest(bundle):
    attach_evidence(bundle, {name: json.dumps(document).encode() for name, document in DEVICE.items()})


def names(bundle):
    with Bundle.open(bundle) as opened:
        return {name: opened.evidence(name) for name in opened.evidence_names() if name.startswith("device")}


def test_building_the_same_again_keeps_what_was_attested(assay, out):
    attest(out.bundle)
    assert assay("qualify", "--target", "gfx1201", "--specs", TOY, "--out", out.out).status == 0
    assert names(out.bundle) == DEVICE
    assert assay("verify", out.bundle).status == 0


def test_another_bundle_does_not_inherit_it(assay, out, tmp_path):
    attest(out.bundle)
    specs = copy_toy(tmp_path / "specs")
    edit(specs, TEMPLATE, "import triton\n", "import triton\n\n# Another source, another bundle.\n")
    ran = assay("qualify", "--target", "gfx1201", "--specs", specs, "--out", out.out, "--update-lock")
    assert ran.status == 0, ran.err
    assert names(out.bundle) == {}
