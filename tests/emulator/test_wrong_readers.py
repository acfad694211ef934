"""The gate notices a reader that takes one code for its neighbour, in either cache."""

import shutil

import pytest

from assay.codegen.specs import load_specs
from assay.qualify.emulating import emulation_request
from assay.qualify.emulation import emulate_in_worker
from tests.kernels.shipped import first_qualified
from tests.specs import SHIPPED, edit

AXES = {"head_dim": 64, "rows": 1, "block_m": 1, "window": False, "soft_cap": False, "offset_bits": 64}
FP8, INT8 = {"kv_format": "fp8_per_token_head"}, {"kv_format": "int8_per_token_head"}
# The line of the template that reads rows, and the same with 0x2B read as 0x2C: any byte, or the third one of a word.
GENERIC = "{{ tile }} = tl.load({{ cache }}_rows[:, None] + {{ columns }}[None, :]{{ mask }})"
GENERIC_WRONG = (
    "codes = tl.load({{ cache }}_rows[:, None] + {{ columns }}[None, :]{{ mask }})\n"
    "{{ tile }} = (codes + (codes == 0x2B).to(codes.dtype))"
)
PACKED = "{{ tile }} = widen_codes(tl.load({{ cache }}_words{{ mask }}))"
PACKED_WRONG = (
    "loaded = tl.load({{ cache }}_words{{ mask }})\n"
    "{{ tile }} = widen_codes(loaded + ((((loaded >> 16) & 0xFF) == 0x2B).to(tl.uint32) << 16))"
)
READERS = {
    "packed": ({**FP8, "reader": "packed", "alignment": 16}, PACKED, PACKED_WRONG),
    "generic": ({**FP8, "reader": "generic", "alignment": 16}, GENERIC, GENERIC_WRONG),
    "generic, unaligned": ({**FP8, "reader": "generic", "alignment": 1}, GENERIC, GENERIC_WRONG),
    "integers": ({**INT8, "reader": "generic", "alignment": 16}, GENERIC, GENERIC_WRONG),
}


@pytest.fixture(autouse=True)
def _kernels_are_compiled_once(compile_cache):
    """What is compiled is kept for the session."""


def faults(specs_folder, axes) -> dict[str, str]:
    """What the gate says of the first candidate that passes the static gates, by case."""
    found = first_qualified(load_specs(specs_folder), "decode_attention", "full", **AXES, **axes)
    verdict = emulate_in_worker(emulation_request(found.variant, found.outcome, found.family))
    return {case["case"]: case["fault"] for case in verdict["cases"]}


# The other two take the line that the generic reader takes.
BY_READER = [
    pytest.param(name, marks=pytest.mark.slow if name in ("generic, unaligned", "integers") else ()) for name in READERS
]


@pytest.mark.parametrize("cache", ["k", "v"])
@pytest.mark.parametrize("reader", BY_READER)
def test_one_wrong_code_in_one_cache_fails_the_case_of_every_code(tmp_path, reader, cache):
    axes, right, wrong = READERS[reader]
    shutil.copytree(SHIPPED, tmp_path / "specs")
    chosen = f'{{% if cache == "{cache}" %}}{wrong}{{% else %}}{right}{{% endif %}}'
    edit(tmp_path / "specs", "templates/kv_readers.j2", right, chosen)
    output = "partial_lse" if cache == "k" else "partial_out"
    assert output in faults(tmp_path / "specs", axes)["every code"]


@pytest.mark.parametrize("reader", BY_READER)
def test_the_reader_as_it_is_passes_every_case(reader):
    assert not any(faults(SHIPPED, READERS[reader][0]).values())
