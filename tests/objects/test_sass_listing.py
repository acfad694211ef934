"""Lines of a CUBIN's disassembly: whole, without encodings, with the functions that a kernel may call."""

import pytest

from assay.objects import ObjectError
from assay.objects.sass_listing import sass_lines


@pytest.mark.parametrize("name", ["nvdisasm", "cuobjdump"])
def test_each_instruction_of_a_kernel_is_a_line_without_its_encoding(data, disassembler, name):
    functions = sass_lines(data("three.sm_90a.cubin"), "reverse", disassembler.with_name(name))
    assert list(functions) == ["reverse"]
    lines = functions["reverse"]
    assert [line.address for line in lines] == list(range(0, 512, 16))
    assert lines[0].text.startswith("LDC R1, c[0x0]")
    assert not any("/*" in line.text or line.text.endswith(";") for line in lines)


def test_what_a_kernel_calls_stands_behind_it(data, disassembler):
    functions = sass_lines(data("linked.sm_90a.cubin"), "recursive", disassembler)
    assert list(functions) == ["recursive", "_Z9fibonaccii"]


def test_labels_are_at_the_places_that_branches_name(data, disassembler):
    lines = sass_lines(data("three.sm_90a.cubin"), "calls", disassembler)["calls"]
    labels = {label: line.address for line in lines for label in line.labels}
    assert labels["$calls$_Z4pickPfi"] == 0x80
    assert any(line.text == "CALL.REL.NOINC `($calls$_Z4pickPfi)" for line in lines)


def test_another_kernel_of_the_file_is_named(data, disassembler):
    with pytest.raises(ObjectError, match=r"no kernel 'scale'; allowed: .*reverse"):
        sass_lines(data("three.sm_90a.cubin"), "scale", disassembler)


def test_a_listing_that_lacks_a_line_is_refused(data, disassembler, tmp_path):
    tool = tmp_path / "nvdisasm"
    tool.write_text(f"#!/bin/sh\n{disassembler} \"$@\" | grep -v '/\\*0010\\*/'\n")
    tool.chmod(0o755)
    with pytest.raises(ObjectError, match="31 instructions listed for 512 bytes"):
        sass_lines(data("three.sm_90a.cubin"), "reverse", tool)
