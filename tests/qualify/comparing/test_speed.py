"""Two builds of 200 kernels are compared in seconds, also where every one of them is another."""

import hashlib
import time

import pytest

from assay.bundle import Condition, write_bundle
from assay.objects import read_object
from assay.objects.elf import Elf
from tests.qualify.comparing.changed_bundles import contents_of

KERNELS = 200
# Of processor time; measured: 2 s.  Listing both sides of each would be 40 s.
SECONDS = 15


def numbered(code, number):
    """The same kernel in another file."""
    place = Elf(code, "test").section(".comment").offset
    return code[:place] + f"{number:08}".encode() + code[place + 8 :]


def ended(code):
    """The same with its last instruction changed: until there nothing tells the two apart."""
    kernel = read_object(code, where="test").kernels[0]
    place = code.index(kernel.code) + kernel.code.rindex(bytes.fromhex("0000b0bf"))
    return code[:place] + b"\1" + code[place + 1 :]


def many(contents, change):
    """KERNELS times the first row, each with a code object and a condition of its own."""
    row, objects, rows, records = contents.rows[0], {}, [], []
    (record,) = (item for item in contents.variants if item.id == row.id)
    for number in range(KERNELS):
        code = change(numbered(contents.objects[row.object], number), number)
        sha256, id = hashlib.sha256(code).hexdigest(), f"{number:016x}"
        objects[sha256] = code
        rows.append(row._replace(id=id, object=sha256, conditions=(*row.conditions, Condition("copy", "eq", number))))
        records.append(record._replace(id=id, code_sha256=sha256, problem={**record.problem, "copy": number}))
    return contents._replace(rows=tuple(rows), variants=tuple(records), objects=objects)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "level"),
    [
        (lambda code, _: code, "identical_bytes"),
        (lambda code, number: numbered(code, number + KERNELS), "identical_code_section"),
        (lambda code, _: ended(code), "changed"),
    ],
    ids=["equal", "other files", "other code"],
)
def test_200_kernels_take_seconds(assay, shipped, tmp_path, change, level):
    contents = contents_of(shipped)
    write_bundle(tmp_path / "before.assay", many(contents, lambda code, _: code))
    write_bundle(tmp_path / "after.assay", many(contents, change))
    start = time.process_time()
    ran = assay("compare", tmp_path / "before.assay", tmp_path / "after.assay", "--json")
    took = time.process_time() - start
    assert ran.document["counts"]["levels"] == {level: KERNELS}
    assert took < SECONDS
