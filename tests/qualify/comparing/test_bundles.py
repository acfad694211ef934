"""Two bundles: what differs is named and decides, what differs outside of code and calls is said and does not."""

import json
import struct

import pytest

from assay.bundle import Condition, KernelArgument, write_bundle
from assay.objects import read_object
from assay.objects.elf import Elf
from tests.bundle.factory import sha
from tests.qualify.comparing.changed_bundles import contents_of, with_code, with_first
from tests.specs import TOY


def compared(assay, *arguments):
    """Exit status and document."""
    ran = assay("compare", *arguments, "--json")
    return ran.status, ran.document


def changed_pairs(document):
    return [pair for pair in document["pairs"] if pair["differences"]]


def patched(code, offset, data):
    return code[:offset] + data + code[offset + len(data) :]


def comment_changed(code):
    """Another compiler's name in a section that nothing loads."""
    section = Elf(code, "toy").section(".comment")
    return patched(code, section.offset, b"x" * 8)


def an_immediate_changed(code):
    """One bit of the code: of the `s_endpgm` that ends the kernel, which is not executed twice."""
    kernel = read_object(code, where="toy").kernels[0]
    start = code.index(kernel.code)
    end = start + kernel.code.rindex(bytes.fromhex("0000b0bf"))
    return patched(code, end, bytes.fromhex("0100b0bf"))


def descriptor_changed(code):
    """The rounding mode: COMPUTE_PGM_RSRC1 of the descriptor, at byte 48 of it."""
    kernel = read_object(code, where="toy").kernels[0]
    section = Elf(code, "toy").section(".rodata")
    place = section.offset + kernel.descriptor.address - section.address + 48
    (rsrc1,) = struct.unpack_from("<I", code, place)
    return patched(code, place, struct.pack("<I", rsrc1 ^ (1 << 12)))


def test_a_bundle_against_itself_is_identical_in_every_byte(assay, toy):
    status, document = compared(assay, toy, toy)
    assert (status, document["schema"], document["verdict"]) == (0, "assay.compare/1", "equal")
    assert document["counts"]["levels"] == {"identical_bytes": 6}
    assert [pair["state"] for pair in document["pairs"]] == ["same"] * 6


def test_two_builds_of_the_same_specs_are_identical(assay, toy, tmp_path):
    options = ("--specs", TOY, "--evidence", "static", "--update-lock")
    assert assay("qualify", "--target", "gfx1201", "--out", tmp_path, *options).status == 0
    assert assay("compare", toy, tmp_path / "gfx1201" / "gfx1201.assay").status == 0


def test_bytes_outside_the_code_are_no_difference(assay, toy, other):
    status, document = compared(assay, toy, other(lambda contents: with_code(contents, comment_changed)))
    assert (status, document["verdict"]) == (0, "equal")
    assert document["counts"]["levels"] == {"identical_bytes": 5, "identical_code_section": 1}


@pytest.mark.parametrize("change", [an_immediate_changed, descriptor_changed])
def test_a_bit_of_the_code_or_the_descriptor_is_one(assay, toy, other, change):
    status, document = compared(assay, toy, other(lambda contents: with_code(contents, change)))
    (pair,) = changed_pairs(document)
    assert (status, pair["level"], document["verdict"]) == (1, "changed", "different")
    assert [item["aspect"] for item in pair["differences"]] == ["code"]


ROW_CHANGES = {
    "preference": ("dispatch", lambda row: row._replace(preference=row.preference + 1)),
    "condition x_dtype": (
        "dispatch",
        lambda row: row._replace(conditions=(*row.conditions, Condition("x_dtype", "one_of", ("f32", "f64")))),
    ),
    "grid": ("launch", lambda row: row._replace(grid=(("rows", "rows"),))),
    "lds_bytes": ("launch", lambda row: row._replace(lds_bytes=row.lds_bytes + 16)),
    "arguments": (
        "launch",
        lambda row: row._replace(arguments=(row.arguments[0]._replace(name="y"), *row.arguments[1:])),
    ),
    "specialisation": ("launch", lambda row: row._replace(specialisation={"divisible_by": {}})),
    "unroll": ("launch", lambda row: row._replace(launch={**row.launch, "unroll": 4})),
}


@pytest.mark.parametrize("name", ROW_CHANGES)
def test_a_row_that_is_launched_or_chosen_otherwise_differs_with_the_same_code(assay, toy, other, name):
    aspect, change = ROW_CHANGES[name]
    status, document = compared(assay, toy, other(lambda contents: with_first(contents, change)))
    (pair,) = changed_pairs(document)
    assert (status, pair["level"]) == (1, "identical_bytes")
    assert [(item["aspect"], item["name"]) for item in pair["differences"]] == [(aspect, name)]
    assert assay("compare", toy, other(lambda contents: with_first(contents, change))).status == 1


def test_the_order_of_conditions_is_no_difference(assay, toy, other):
    turned = other(
        lambda contents: with_first(contents, lambda row: row._replace(conditions=tuple(reversed(row.conditions))))
    )
    assert assay("compare", toy, turned).status == 0


def test_a_resource_is_named_with_both_figures(assay, toy, other):
    def more(record):
        return record._replace(resources={**record.resources, "vgpr_count": record.resources["vgpr_count"] + 8})

    path = other(lambda contents: with_first(contents, record=more))
    status, document = compared(assay, toy, path)
    (pair,) = changed_pairs(document)
    (item,) = pair["differences"]
    assert (status, item["aspect"], item["name"]) == (1, "resources", "vgpr_count")
    assert item["after"] - item["before"] == 8
    assert f"VGPR {item['before']} → {item['after']}" in assay("compare", toy, path).text


def test_other_source_text_and_other_ids_are_said_and_are_no_difference(assay, toy, other):
    """A comment in a template changes the source, hence every id, and nothing else."""

    def renamed(contents):
        ids = {row.id: sha(row.id)[:16] for row in contents.rows}
        rows = tuple(row._replace(id=ids[row.id]) for row in contents.rows)
        variants = []
        for record in contents.variants:
            source = record.source + "# a comment\n"
            variants.append(record._replace(id=ids[record.id], source=source, source_sha256=sha(source)))
        return contents._replace(rows=rows, variants=tuple(variants))

    path = other(renamed)
    status, document = compared(assay, toy, path)
    assert (status, document["verdict"], document["counts"]["levels"]) == (0, "equal", {"identical_bytes": 6})
    assert [[note["name"] for note in pair["notes"]] for pair in document["pairs"]] == [["source"]] * 6
    assert "6 of those without a difference are made from other source text" in assay("compare", toy, path).text


def test_new_and_gone_variants_are_differences(assay, toy, other):
    def without_first(contents):
        first = contents.rows[0]
        rows = contents.rows[1:]
        used = {row.object for row in rows}
        return contents._replace(
            rows=rows,
            variants=tuple(record for record in contents.variants if record.id != first.id),
            objects={name: code for name, code in contents.objects.items() if name in used},
        )

    fewer = other(without_first)
    for sides, state in (((toy, fewer), "gone"), ((fewer, toy), "new")):
        status, document = compared(assay, *sides)
        (pair,) = changed_pairs(document)
        assert (status, pair["state"], document["counts"][state]) == (1, state, 1)
        assert [item["aspect"] for item in pair["differences"]] == [state]


def test_a_verdict_at_a_level_of_both_sides_is_compared(assay, toy, tmp_path):
    contents = contents_of(toy)
    first = contents.rows[0].id

    def with_evidence(name, **verdicts):
        documents = {
            level: {"schema": "assay.evidence/1", "level": level, "variants": {first: {level: verdict}}}
            for level, verdict in verdicts.items()
        }
        evidence = {level: json.dumps(document).encode() for level, document in documents.items()}
        write_bundle(tmp_path / name, contents._replace(evidence=evidence))
        return tmp_path / name

    passed = with_evidence("passed.assay", static="pass", emulated="pass")
    static = with_evidence("static.assay", static="pass")
    failed = with_evidence("failed.assay", static="pass", emulated="fail")
    assert assay("compare", passed, static).status == 0
    status, document = compared(assay, passed, failed)
    (pair,) = changed_pairs(document)
    assert status == 1
    assert pair["differences"] == [{"aspect": "evidence", "name": "emulated", "before": "pass", "after": "fail"}]


def test_words_of_a_contract_are_no_difference_and_its_terms_are_one_of_each_variant(assay, toy, other):
    def contract(**changes):
        def change(contents):
            families = {"scale": {**contents.manifest.families["scale"], **changes}}
            return contents._replace(manifest=contents.manifest._replace(families=families))

        return other(change)

    assert assay("compare", toy, contract(summary="said otherwise", axes={"width": "said otherwise"})).status == 0
    status, document = compared(assay, toy, contract(tolerance={"absolute": "0.5", "relative": "0.0"}))
    assert status == 1
    assert [pair["differences"][0]["aspect"] for pair in document["pairs"]] == ["contract"] * 6


def test_who_may_run_the_code_is_compared(assay, toy, other):
    def elsewhere(contents):
        (target,) = contents.manifest.targets
        manifest = contents.manifest._replace(targets=(target._replace(runs_on=("gfx1200",)),))
        return contents._replace(manifest=manifest)

    _, document = compared(assay, toy, other(elsewhere))
    assert {(item["aspect"], item["name"]) for pair in document["pairs"] for item in pair["differences"]} == {
        ("dispatch", "runs_on")
    }


def test_another_compiler_build_is_said_and_is_no_difference_where_the_code_is_the_same(assay, toy, other):
    def made_elsewhere(contents):
        toolchain = {**contents.manifest.toolchain, "triton": "3.9.0"}
        return contents._replace(manifest=contents.manifest._replace(toolchain=toolchain))

    ran = assay("compare", toy, other(made_elsewhere))
    assert ran.status == 0
    assert "made by other compiler builds: triton=3.8.0" in ran.text


def test_executed_instructions_are_shown_by_class_where_both_sides_counted_them(assay, toy, tmp_path):
    contents = contents_of(toy)
    first = contents.rows[0].id

    def counting(name, counts):
        figures = {"emulated": "pass", "executed_instructions": counts}
        document = {"schema": "assay.evidence/1", "level": "emulated", "variants": {first: figures}}
        write_bundle(tmp_path / name, contents._replace(evidence={"emulated": json.dumps(document).encode()}))
        return tmp_path / name

    before = counting("before.assay", {"v_add_f32_e32": 10, "s_mov_b32": 3, "ds_load_b32": 1})
    after = counting("after.assay", {"v_add_f32_e32": 10, "v_mul_f32_e32": 2, "s_mov_b32": 3})
    status, document = compared(assay, before, after)
    assert status == 0
    (found,) = [pair["executed_instructions"] for pair in document["pairs"] if pair["executed_instructions"]]
    assert found == {"DS": [1, 0], "VALU": [10, 12]}


def test_a_pair_is_found_whatever_launch_each_side_chose(assay, toy, other):
    def launched(row):
        return row._replace(launch={**row.launch, "num_warps": 8}, num_warps=8)

    _, document = compared(assay, toy, other(lambda contents: with_first(contents, launched)))
    (pair,) = changed_pairs(document)
    assert pair["state"] == "changed"
    assert [item["name"] for item in pair["differences"]] == ["num_warps"]


def test_arguments_of_another_place_in_the_block_differ(assay, toy, other):
    def moved(row):
        last = row.arguments[-1]
        return row._replace(
            arguments=(*row.arguments[:-1], KernelArgument(last.name, last.offset + 8, last.size, last.kind))
        )

    assert assay("compare", toy, other(lambda contents: with_first(contents, moved))).status == 1


def overlapping(contents, first_id):
    """Two rows that a call of rank 1 and width 64 could have either of, with ids that decide."""
    one, other, *_ = contents.rows
    rows = (
        one._replace(id=first_id, conditions=(Condition("width", "eq", 64),), preference=7),
        other._replace(id="m" * 16, conditions=(Condition("rank", "at_least", 1),), preference=7),
    )
    names = {one.id: first_id, other.id: "m" * 16}
    records = tuple(record._replace(id=names[record.id]) for record in contents.variants if record.id in names)
    objects = {row.object: contents.objects[row.object] for row in rows}
    return contents._replace(rows=rows, variants=records, objects=objects)


def test_a_comment_that_changes_which_of_two_rows_answers_is_a_difference(assay, other):
    """Of equally good rows the lower id is tried first, and an edited comment gives every row another id."""
    before = other(lambda contents: overlapping(contents, "a" * 16), "before.assay")
    same = other(lambda contents: overlapping(contents, "b" * 16), "same.assay")
    turned = other(lambda contents: overlapping(contents, "z" * 16), "turned.assay")
    assert assay("compare", before, same).status == 0
    status, document = compared(assay, before, turned)
    assert status == 1
    assert [item["aspect"] for pair in document["pairs"] for item in pair["differences"]] == ["dispatch", "dispatch"]


def kernel_of(code):
    """`with_first`, for a bundle whose first row launches kernel `k` of `code`; arguments do not matter here."""

    def change(contents):
        swapped = with_code(contents, lambda _: code)
        return with_first(swapped, lambda row: row._replace(symbol="k"))

    return change


def test_the_same_instructions_on_other_registers_are_renamed_code(assay, other, link):
    """A difference all the same: who wants to allow it says so."""
    one = other(kernel_of(link(body="v_mov_b32_e32 v2, s6")), "one.assay")
    renamed = other(kernel_of(link(body="v_mov_b32_e32 v3, s6")), "renamed.assay")
    status, document = compared(assay, one, renamed)
    (pair,) = changed_pairs(document)
    assert (status, pair["level"]) == (1, "identical_normalised")
    assert [item["aspect"] for item in pair["differences"]] == ["renamed"]
    assert assay("compare", one, renamed, "--allow", "renamed").status == 0
    assert assay("compare", one, renamed, "--allow", "code").status == 0
    assert assay("compare", one, other(kernel_of(link(body="v_not_b32_e32 v2, s6"))), "--allow", "renamed").status == 1


def test_a_constant_beside_the_code_counts_and_a_build_id_does_not(assay, other, link):
    one = other(kernel_of(link()), "one.assay")
    assert compared(assay, one, other(kernel_of(link(constant=8))))[0] == 1
    status, document = compared(assay, one, other(kernel_of(link(build_id=b"\2" * 16, comment="another"))))
    assert (status, document["counts"]["levels"]) == (0, {"identical_bytes": 5, "identical_code_section": 1})


def register_count_changed(code):
    """One register more in `.nv.info`: EIATTR_REGCOUNT, a word of 8 bytes behind its head, symbol and count."""
    section = Elf(code, "toy").section(".nv.info")
    count = code.index(bytes.fromhex("042f0800"), section.offset) + 8
    return patched(code, count, struct.pack("<I", struct.unpack_from("<I", code, count)[0] + 1))


def test_figures_that_an_object_tells_the_driver_count_whatever_the_record_says(assay, built, tmp_path):
    bundle = built("sm90").bundle
    write_bundle(tmp_path / "changed.assay", with_code(contents_of(bundle), register_count_changed))
    status, document = compared(assay, bundle, tmp_path / "changed.assay")
    assert status == 1
    (pair,) = changed_pairs(document)
    assert pair["level"] == "changed"
