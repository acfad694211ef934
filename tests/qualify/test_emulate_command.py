"""`assay emulate` runs kernels that assay never saw, and says what is wrong with a kernel, a launch or a file."""

import functools
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from assay.emulator.decode import decode
from assay.objects import read_object
from assay.qualify import executing
from assay.qualify.emulate import watching
from assay.qualify.emulate.arguments import DTYPES, ArgumentError, parse_argument
from assay.qualify.emulate.buffers import make_buffer, scalar_bits
from assay.qualify.emulate.formats import decode as decode_elements
from assay.qualify.emulate.formats import encode
from assay.reference.number_formats import e4m3fn_values
from tests.emulator.planting import encode as encode_instruction
from tests.qualify import tutorial_kernels as kernels

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "emulator.md"
OBJECTS = ROOT / "tests" / "objects" / "data"
ASSAY = Path(sys.executable).with_name("assay")
ADD = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32"}
ADD_ARGUMENTS = ("--arg", "x=f32[1000]:normal", "--arg", "y=f32[1000]:normal", "--arg", "out=f32[1000]:nan")
LAUNCH = ("--grid", "4", "--warps", "4")
FULL = (*LAUNCH, *ADD_ARGUMENTS, "--arg", "n=i32:1000")
LONG = ("--grid", "60000", "--warps", "4", *ADD_ARGUMENTS, "--arg", "n=i32:1000")
NOP = encode_instruction("SOPP", "s_nop")


@functools.cache
def compiled(name):
    if name == "vector_add":
        return kernels.compile_for(kernels.vector_add, ADD, {"BLOCK": 256})
    if name == "fused_softmax":
        types = {"out": "*fp32", "x": "*fp32", "x_stride": "i32", "out_stride": "i32", "rows": "i32", "columns": "i32"}
        return kernels.compile_for(kernels.fused_softmax, types, {"BLOCK": 1024}, num_warps=8)
    if name == "grouped_matmul":
        types = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "m": "i32", "n": "i32", "k": "i32"}
        return kernels.compile_for(kernels.grouped_matmul, types, {"BM": 32, "BN": 32, "BK": 32, "GROUP": 2})
    if name == "scale_codes":
        types = {"x": "*fp8e4nv", "out": "*bf16", "factor": "fp32"}
        return kernels.compile_for(kernels.scale_codes, types, {"BLOCK": 256})
    return kernels.compile_for(kernels.all_at_one_place, {"out": "*i32"}, num_warps=1)


@pytest.fixture
def hsaco(tmp_path):
    """A compiled kernel as a file, with `change(code)` applied to its machine code."""

    def write(name, change=None):
        data = compiled(name).asm["hsaco"]
        if change is not None:
            code = read_object(data, where=name).kernels[0].code
            changed = change(code)
            assert changed != code
            assert data.count(code) == 1
            data = data.replace(code, changed)
        path = tmp_path / f"{name}.hsaco"
        path.write_bytes(data)
        return path

    return write


def without(opcode):
    """Every instruction of that name becomes as many s_nop."""

    def change(code):
        for instruction in decode(code):
            if instruction.opcode.startswith(opcode):
                end = instruction.address + instruction.size
                code = code[: instruction.address] + NOP * (instruction.size // 4) + code[end:]
        return code

    return change


def starting_with(*first):
    """The code begins with other instructions; what is left of one that they cut becomes s_nop."""

    def change(code):
        length = len(b"".join(first))
        end = next(item.address for item in decode(code) if item.address >= length)
        return b"".join(first) + NOP * ((end - length) // 4) + code[end:]

    return change


def shell(*arguments):
    """The installed command in a process of its own, as a user calls it."""
    command = [ASSAY, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def faulted(assay, *arguments):
    """A run that must end in a fault: what JSON says of it, and the text for a person."""
    ran = assay("emulate", *arguments, "--json")
    assert ran.status == 1, ran.text
    document = ran.document
    assert (document["verdict"], document["counters"], document["steps"]) == ("fault", None, None)
    assert "FAULT" in ran.err
    said = assay("emulate", *arguments)
    assert said.status == 1
    assert document["fault"]["error"] in said.out
    return document["fault"], said.text


def test_a_vector_addition_gives_what_numpy_gives(hsaco, tmp_path):
    x, y = (np.random.default_rng(seed).standard_normal(1000).astype(np.float32) for seed in (7, 1))
    np.save(tmp_path / "sum.npy", x + y)
    arguments = ("--arg", "x=f32[1000]:normal:7", "--arg", "y=f32[1000]:normal", "--arg", "out=f32[1000]:nan")
    launch = (*LAUNCH, *arguments, "--arg", "i32:1000", "--expect", f"out={tmp_path / 'sum.npy'}")
    ran = shell("emulate", hsaco("vector_add"), *launch)
    assert ran.returncode == 0, ran.stderr
    assert "all 1,000 elements as" in ran.stdout
    assert "limited by waves" in ran.stdout
    assert re.search(r"\ball +96 +12,000 +375 / 189 / 96 +1\.00 / 0\.99 / 0\.98", ran.stdout)
    ran = shell("emulate", hsaco("vector_add"), *launch, "--json")
    document = json.loads(ran.stdout)
    assert ran.stderr == ""
    assert document["schema"] == "assay.emulate/1"
    assert (document["verdict"], document["kernel"], document["arch"]) == ("matched", "vector_add", "gfx1201")
    assert [item["given"] for item in document["arguments"]][3:] == ["i32:1000", None, None]
    x, y, out = document["buffers"]
    assert (x["changed"], y["changed"]) == (0, 0)
    assert (out["changed"], out["first"], out["nans"], out["shape"]) == (1000, 0, 0, [1000])
    counters = document["counters"]
    assert (counters["waves"], counters["workgroups"]) == (16, 4)
    memory = counters["memory"]
    assert memory["store"]["bytes"] == 4000
    assert memory["store"]["segments_128"] == math.ceil(4000 / 128)
    assert memory["load"]["coalescing_32"] == 1
    assert memory["all"]["bytes"] == 12000
    assert {item["source"].split(":")[0] for item in counters["memory_instructions"]} == {"tutorial_kernels.py"}
    assert counters["executed_instructions"]["all"] == sum(list(counters["executed_instructions"].values())[:-1])
    assert document["occupancy"]["waves"] == 64
    assert document["resources"]["lds_total_bytes"] == 0


def test_a_fused_softmax_of_strided_rows_gives_what_numpy_gives(hsaco, tmp_path):
    rows, columns, stride = 13, 781, 800
    x = np.random.default_rng(3).standard_normal((rows, stride)).astype(np.float32)
    wide = np.exp(x[:, :columns].astype(np.float64))
    expected = np.full((rows, stride), -1.0)
    expected[:, :columns] = wide / wide.sum(axis=1, keepdims=True)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "expected.npy", expected)
    scalars = [part for size in (stride, stride, rows, columns) for part in ("--arg", f"i32:{size}")]
    buffers = ("--arg", f"out=f32[{rows},{stride}]:-1", "--arg", f"x=f32:{tmp_path / 'x.npy'}", *scalars)
    launch = ("--grid", "4", "--warps", "8", "--lds", compiled("fused_softmax").metadata.shared, "--read-only", "x")
    expect = ("--expect", f"out={tmp_path / 'expected.npy'}", "--atol", "1e-7", "--rtol", "1e-5")
    ran = shell("emulate", hsaco("fused_softmax"), *launch, *buffers, *expect, "--json")
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    assert 0 < document["expectations"][0]["largest_error"] < 1e-6
    assert document["counters"]["lds_instructions"]
    assert document["buffers"][0]["changed"] == rows * columns


def test_a_grouped_matrix_product_gives_what_numpy_gives(hsaco, tmp_path):
    m, n, k = 96, 80, 72
    a, b = (np.random.default_rng(seed).standard_normal(s).astype(np.float16) for seed, s in ((0, (m, k)), (1, (k, n))))
    np.save(tmp_path / "product.npy", a.astype(np.float64) @ b.astype(np.float64))
    arguments = [
        f"a=f16[{m},{k}]:normal",
        f"b=f16[{k},{n}]:normal",
        f"c=f16[{m},{n}]:nan",
        *map("i32:{}".format, (m, n, k)),
    ]
    given = [part for argument in arguments for part in ("--arg", argument)]
    launch = ("--grid", "9,1,1", "--warps", "4", "--lds", compiled("grouped_matmul").metadata.shared)
    expect = ("--expect", f"c={tmp_path / 'product.npy'}", "--atol", "1e-2", "--rtol", "2e-3")
    ran = shell("emulate", hsaco("grouped_matmul"), *launch, *given, *expect, "--save", tmp_path / "saved", "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    counters = json.loads(ran.stdout)["counters"]
    assert counters["executed_instructions"]["wmma"] > 0
    lost = [item["cycles"] - item["ideal_cycles"] for item in counters["lds_instructions"]]
    assert counters["bank_conflict_cycles"] == sum(lost) > 0
    assert {path.name for path in (tmp_path / "saved").iterdir()} == {"a.npy", "b.npy", "c.npy"}
    np.testing.assert_array_equal(np.load(tmp_path / "saved" / "a.npy"), a)


def test_fp8_codes_and_a_factor_by_value_give_bf16(assay, hsaco, tmp_path):
    codes = np.arange(256, dtype=np.uint8)
    np.save(tmp_path / "codes.npy", codes)
    np.save(tmp_path / "expected.npy", e4m3fn_values() * 0.5)
    given = ("--arg", f"x=fp8:{tmp_path / 'codes.npy'}", "--arg", "out=bf16[256]:7", "--arg", "f32:0.5")
    ran = assay("emulate", hsaco("scale_codes"), "--grid", "1", "--warps", "4", *given,
                "--expect", f"out={tmp_path / 'expected.npy'}", "--json")  # fmt: skip
    assert ran.status == 0, ran.text
    assert ran.document["buffers"][1]["nans"] == 2
    assert ran.document["buffers"][1]["largest"] == 224


def test_gfx1200_is_executed_as_well(assay, tmp_path):
    made = kernels.compile_for(kernels.all_at_one_place, {"out": "*i32"}, arch="gfx1200", num_warps=1)
    path = tmp_path / "store.hsaco"
    path.write_bytes(made.asm["hsaco"])
    ran = assay("emulate", path, "--grid", "1", "--warps", "1", "--arg", "out=i32[2]:-1", "--json")
    assert ran.status == 0, ran.text
    assert (ran.document["arch"], ran.document["buffers"][0]["changed"]) == ("gfx1200", 1)


def test_a_wrong_expectation_is_1_with_count_and_first_difference(assay, hsaco, tmp_path):
    expected = np.arange(1000.0)
    expected[[10, 20]] += 0.25
    expected[30] = np.nan
    np.save(tmp_path / "expected.npy", expected)
    given = (
        "--arg",
        "x=f32[1000]:arange",
        "--arg",
        "y=f32[1000]:zeros",
        "--arg",
        "out=f32[1000]:nan",
        "--arg",
        "i32:1000",
    )
    launch = ("emulate", hsaco("vector_add"), *LAUNCH, *given, "--expect", f"out={tmp_path / 'expected.npy'}")
    ran = assay(*launch)
    assert ran.status == 1
    assert "MISMATCH out: 3 of 1,000 elements differ" in ran.out
    assert "first at [10]: 10, expected 10.25" in ran.out
    ran = assay(*launch, "--json", "--atol", "0.3")
    assert ran.status == 1
    assert ran.document["verdict"] == "mismatch"
    (found,) = ran.document["expectations"]
    assert (found["wrong"], found["largest_error"]) == (1, 0.25)
    assert found["first"] == {"index": [30], "actual": 30.0, "expected": "nan"}


def test_integers_beyond_float64_are_compared_exactly(assay, hsaco, tmp_path):
    np.save(tmp_path / "expected.npy", np.full(1, 2**53 + 1))
    given = (
        "--grid",
        "1",
        "--warps",
        "1",
        "--arg",
        f"out=i64[1]:{2**53}",
        "--expect",
        f"out={tmp_path / 'expected.npy'}",
    )
    path = hsaco("all_at_one_place", starting_with(encode_instruction("SOPP", "s_endpgm")))
    assert assay("emulate", path, *given).status == 1
    np.save(tmp_path / "expected.npy", np.full(1, 2**53))
    assert assay("emulate", path, *given).status == 0


def test_an_access_out_of_bounds_names_buffer_instruction_and_source_line(assay, hsaco):
    fault, said = faulted(
        assay, hsaco("vector_add"), *LAUNCH, *ADD_ARGUMENTS[:-1], "out=f32[900]:nan", "--arg", "i32:1000"
    )
    assert fault["error"] == "OutOfBoundsError"
    assert fault["instruction"].startswith("global_store")
    assert fault["source"].startswith("tutorial_kernels.py:")
    assert "buffer 'out', which has 3600 bytes" in said
    assert f"vector_add+{fault['address']:#x}" in said


def test_a_read_only_buffer_is_not_to_be_written(assay, hsaco):
    fault, _ = faulted(assay, hsaco("vector_add"), *FULL, "--read-only", "out")
    assert "buffer 'out', which is read-only" in fault["detail"]


def test_a_long_launch_says_how_far_it_is_on_standard_error(assay, hsaco, monkeypatch):
    monkeypatch.setattr(watching, "LOG_SECONDS", 0.02)
    ran = assay("emulate", hsaco("vector_add"), *LONG)
    assert ran.status == 0, ran.text
    seen = [
        tuple(int(number.replace(",", "")) for number in match)
        for match in re.findall(r"([\d,]+) of ([\d,]+) workgroups ended, ([\d,]+) steps, \d+ s", ran.err)
    ]
    assert len(seen) > 2, ran.err
    assert seen == sorted(seen)
    assert {total for _, total, _ in seen} <= {0, 60_000}
    assert 0 < seen[-1][0] < 60_000
    assert seen[-1][2] > 0
    assert "workgroups ended" not in ran.out


def test_programs_that_store_different_values_at_one_place_race(assay, hsaco):
    launch = ("--grid", "3", "--warps", "1", "--arg", "out=i32[1]:zeros")
    fault, _ = faulted(assay, hsaco("all_at_one_place"), *launch)
    assert fault["error"] == "RaceError"
    assert "of 'out'" in fault["detail"]
    ran = assay("emulate", hsaco("all_at_one_place"), *launch, "--check-off", "races")
    assert ran.status == 0
    assert "not checked: races" in ran.out


def test_lds_without_its_barriers_races(assay, hsaco):
    scalars = [part for size in (64, 64, 1, 64) for part in ("--arg", f"i32:{size}")]
    given = ("--arg", "out=f32[64]:nan", "--arg", "x=f32[64]:normal", *scalars)
    launch = ("--grid", "1", "--warps", "8", "--lds", compiled("fused_softmax").metadata.shared)
    assert assay("emulate", hsaco("fused_softmax"), *launch, *given).status == 0
    fault, _ = faulted(assay, hsaco("fused_softmax", without("s_barrier")), *launch, *given)
    assert fault["error"] == "RaceError"
    assert "of LDS" in fault["detail"]


def test_a_register_read_before_its_wait_is_found(assay, hsaco):
    path = hsaco("vector_add", without("s_wait_loadcnt"))
    fault, _ = faulted(assay, path, *FULL)
    assert fault["error"] == "InFlightError"


def test_a_value_that_nobody_wrote_is_found(assay, hsaco):
    given = ("--grid", "1", "--warps", "4", "--arg", "fp8[256]:normal", "--arg", "bf16[256]:nan", "--arg", "f32:2")
    fault, said = faulted(assay, hsaco("scale_codes", without("buffer_load")), *given)
    assert fault["error"] == "UndefinedValueError"
    assert "--check-off undefined" in said


def test_an_endless_loop_ends_at_the_limit(assay, hsaco):
    path = hsaco("vector_add", starting_with(encode_instruction("SOPP", "s_branch", simm16=0xFFFF)))
    fault, said = faulted(assay, path, *FULL, "--max-steps", 1000)
    assert fault["error"] == "StepBudgetError"
    assert "--max-steps allows more" in said


def test_unknown_instructions_are_all_named_before_anything_runs(assay, hsaco):
    trap = encode_instruction("SOPP", "s_trap", simm16=1)
    fault, said = faulted(assay, hsaco("vector_add", starting_with(trap, trap)), *FULL)
    assert fault["error"] == "UnsupportedInstructions"
    assert [(item["address"], item["name"]) for item in fault["unsupported"]] == [(0, "s_trap"), (4, "s_trap")]
    assert "s_trap" in said


def test_a_missing_lds_size_is_hinted_at(assay, hsaco):
    scalars = [part for size in (64, 64, 1, 64) for part in ("--arg", f"i32:{size}")]
    given = ("--arg", "out=f32[64]:nan", "--arg", "x=f32[64]:normal", *scalars)
    fault, said = faulted(assay, hsaco("fused_softmax"), "--grid", "1", "--warps", "8", *given)
    assert "LDS access" in fault["detail"]
    assert "give --lds BYTES" in said


def test_after_a_fault_what_was_stored_so_far_can_be_saved(assay, hsaco, tmp_path):
    short = (*LAUNCH, *ADD_ARGUMENTS[:-1], "out=f32[900]:nan", "--arg", "i32:1000", "--save", tmp_path / "saved")
    faulted(assay, hsaco("vector_add"), *short)
    assert np.isfinite(np.load(tmp_path / "saved" / "out.npy")).any()


def test_everything_missing_is_said_at_once_with_what_the_object_allows(assay, hsaco):
    ran = assay("emulate", hsaco("vector_add"))
    assert (ran.status, ran.out) == (2, "")
    assert "--grid: missing" in ran.said
    assert "compiled for 128 work-items in waves of 32; Triton's kernels need exactly --warps 4" in ran.said
    assert (
        "missing argument 3 (offset 24, 4 bytes, by_value): allowed: [NAME=]DTYPE:NUMBER of 4 bytes: f32, i32"
        in ran.said
    )
    assert "argument 4" not in ran.said, "Triton's scratch pointers may be left out"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"n=i32:1000": "n=i64:1000"}, "i64 has 8 bytes; it is argument 3 (offset 24, 4 bytes, by_value)"),
        ({"n=i32:1000": "n=i32[4]:zeros"}, "a pointer where a value is wanted"),
        ({"x=f32[1000]:normal": "i64:4096"}, "a number where a pointer is wanted; it is argument 0 (offset 0, 8 bytes"),
        ({"n=i32:1000": "n=i32:3000000000"}, "does not fit i32; allowed: -2147483648 to 2147483647"),
        ({"n=i32:1000": "n=f33:1"}, "'f33' is not a dtype, did you mean f32?"),
        ({"y=f32[1000]:normal": "x=f32[1000]:normal"}, "named twice"),
        ({"x=f32[1000]:normal": "x=f32[1000]"}, "does not say what it holds"),
        ({"x=f32[1000]:normal": "x=f32[0]:zeros"}, "[0] is not a shape"),
        ({"x=f32[1000]:normal": "x=f32[99999999999999]:zeros"}, "is too large"),
        ({"x=f32[1000]:normal": f"x=f32[{'9' * 5000}]:zeros"}, "is not a shape"),
        ({"x=f32[1000]:normal": f"x=f32[{','.join('1' * 70)}]:zeros"}, "is not a shape; allowed: 1 to 32 sizes"),
        ({"x=f32[1000]:normal": f"x=f32[1000]:normal:{'9' * 5000}"}, "a whole number"),
        ({"x=f32[1000]:normal": "x=f32[1000]:norml"}, "did you mean normal?"),
        ({"x=f32[1000]:normal": "x=i32[1000]:nan"}, "nan of integers"),
        ({"x=f32[1000]:normal": "x=f32[1000]:zeros:3"}, "seed '3' of zeros"),
        ({"x=f32[1000]:normal": "x=f32[1000]:absent.npy"}, "absent.npy: No such file"),
        ({"x=f32[1000]:normal": "x=f32(1000)"}, "x=f32(1000)"),
    ],
)
def test_an_argument_that_does_not_fit_is_2_and_says_why(assay, hsaco, changed, said):
    ran = assay("emulate", hsaco("vector_add"), *(changed.get(item, item) for item in FULL))
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.said


def test_a_header_that_numpy_trips_over_is_bad_input(assay, hsaco, tmp_path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (10,"
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    changed = {"x=f32[1000]:normal": f"x=f32[1000]:{tmp_path / 'bad.npy'}"}
    ran = assay("emulate", hsaco("vector_add"), *(changed.get(item, item) for item in FULL))
    assert (ran.status, ran.out) == (2, "")
    assert "a .npy file" in ran.said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--grid", "0"), "is not X[,Y[,Z]]"),
        (("--grid", "1,2,3,4"), "is not X[,Y[,Z]]"),
        (("--grid", "1,70000"), "y up to 65,535"),
        (
            ("--grid", "33554432"),
            "--grid: 33,554,432 workgroups of 128 work-items are 4,294,967,296 along x; allowed: 4,294,967,295",
        ),
        (("--warps", "5"), "allowed: 1 to 4 waves"),
        (("--lds", "65537"), "--lds: 65,537 bytes"),
        (("--kernel", "vector_ad"), "did you mean vector_add?"),
        (("--arg", "null"), "missing argument 5"),
        (("--arg", "null", "--arg", "null", "--arg", "i32:1"), "one too many"),
        (("--expect", "out"), "is not NAME=FILE.npy"),
        (("--read-only", "z"), "--read-only z: no buffer of that name; allowed: x, y, out"),
        (("--expect", "z=z.npy"), "--expect z: no buffer of that name"),
        (("--expect", "out=absent.npy"), "absent.npy: No such file"),
        (("--check-off", "bound"), "'bound'"),
        (("--max-steps", "0"), "--max-steps"),
    ],
)
def test_bad_usage_is_2_and_says_what_is_allowed(assay, hsaco, more, said):
    ran = assay("emulate", hsaco("vector_add"), *FULL, *more)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.said


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros(999, np.float32), "has 999 elements"),
        (np.zeros(1000, np.float64), "holds float64; allowed: float32 for f32"),
        (np.zeros(1000, np.complex64), "complex64"),
        (np.zeros(1000, object), "Object arrays cannot be loaded"),
    ],
)
def test_a_file_of_other_elements_is_refused(assay, hsaco, tmp_path, array, said):
    np.save(tmp_path / "x.npy", array)
    path = tmp_path / "x.npy"
    ran = assay(
        "emulate", hsaco("vector_add"), *("x=f32[1000]:" + str(path) if "x=" in part else part for part in FULL)
    )
    assert ran.status == 2
    assert said in ran.said


def test_a_file_that_is_no_gfx12_hsaco_is_2(assay, tmp_path):
    cubin, other = OBJECTS / "three.sm_90a.cubin", OBJECTS / "copy.gfx942.hsaco"
    text = tmp_path / "kernel.hsaco"
    text.write_text("not a code object at all, but text")
    for path, said in (
        (cubin, "sm_90a code; allowed: an HSACO for gfx1200, gfx1201"),
        (other, "gfx942"),
        (text, "not an ELF file"),
        (tmp_path, "a folder"),
        (tmp_path / "absent", "No such file"),
    ):
        ran = assay("emulate", path, *LAUNCH)
        assert (ran.status, ran.out) == (2, "")
        assert said in ran.said


def test_a_file_with_several_kernels_wants_a_name(assay):
    four = OBJECTS / "four.gfx1201.hsaco"
    names = [kernel.name for kernel in read_object(four.read_bytes(), where="four").kernels]
    ran = assay("emulate", four, *LAUNCH)
    assert ran.status == 2
    assert all(name in ran.said for name in names)
    assert "--kernel: missing" in ran.said


def test_a_missing_extra_is_4_with_what_to_install(assay, hsaco, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(executing.importlib.util, "find_spec", lambda name: None if name == "tinygrad" else find(name))
    ran = assay("emulate", hsaco("vector_add"), *FULL)
    assert ran.status == 4
    assert "tinygrad is not installed" in ran.said
    assert "emulate extra" in ran.said


def test_the_command_line_itself_needs_no_numpy():
    code = "import sys; from assay.qualify import cli; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("content", ["zeros", "ones", "arange", "uniform", "3", "normal", "nan"])
def test_contents_are_what_they_are_called(dtype, content):
    if dtype[0] in "iu" and content in ("normal", "nan"):
        with pytest.raises(ArgumentError):
            parse_argument(f"{dtype}[4]:{content}", 0)
        return
    buffer = make_buffer(parse_argument(f"{dtype}[3,5]:{content}", 2), writable=True)
    values = buffer.values.astype(np.float64)
    assert values.shape == (3, 5)
    assert buffer.elements.nbytes == 15 * DTYPES[dtype]
    if content in ("uniform", "normal"):
        assert len(np.unique(values)) > 5
        again = make_buffer(parse_argument(f"{dtype}[3,5]:{content}:2", 0), writable=True)
        np.testing.assert_array_equal(buffer.elements, again.elements)
    else:
        wanted = {"zeros": 0, "ones": 1, "3": 3, "nan": np.nan, "arange": np.arange(15).reshape(3, 5)}[content]
        np.testing.assert_array_equal(values, np.broadcast_to(wanted, (3, 5)))


def test_fp8_is_rounded_to_the_nearest_code_ties_to_even():
    table = e4m3fn_values()
    values = np.concatenate([np.random.default_rng(0).uniform(-500, 500, 1000), np.linspace(-0.02, 0.02, 99), table])
    made = decode_elements("fp8", encode("fp8", values))
    finite = np.sort(table[np.isfinite(table)])
    closest = np.abs(finite[None] - np.clip(values, -448, 448)[:, None]).min(axis=1)
    np.testing.assert_array_equal(
        np.abs(made - np.clip(values, -448, 448)), np.where(np.isnan(values), np.nan, closest)
    )
    middles = (table[:126] + table[1:127]) / 2
    assert (encode("fp8", middles) % 2 == 0).all()
    np.testing.assert_array_equal(encode("fp8", table[:0x80]), np.arange(0x80))


@pytest.mark.parametrize(
    ("text", "bits"),
    [("i8:-1", 0xFF), ("u64:0xFFFFFFFFFFFFFFFF", 2**64 - 1), ("i64:-2", 2**64 - 2), ("f32:0.5", 0x3F000000),
     ("f16:-1", 0xBC00), ("bf16:1", 0x3F80), ("f64:1", 0x3FF << 52), ("fp8:448", 0x7E), ("f32:inf", 0x7F800000)],
)  # fmt: skip
def test_numbers_by_value_are_their_bytes(text, bits):
    assert scalar_bits(parse_argument(text, 0)) == bits


def test_the_documented_example_runs_as_it_stands(tmp_path):
    blocks = re.findall(r"```(\w+)\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    program, commands, python = (text for _, text in blocks[:3])
    (tmp_path / "add.py").write_text(program)
    (tmp_path / "counters.py").write_text(python)
    environment = {**os.environ, "PATH": f"{ASSAY.parent}{os.pathsep}{os.environ['PATH']}"}
    script = f"set -e\n{commands}\npython counters.py\n"
    ran = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("--warps 4 --lds 0\n")
    assert "out: all 1,000 elements as sum.npy says" in ran.stdout
    assert ran.stdout.rstrip().endswith("[0. 2. 4.]")


def test_every_documented_field_is_in_the_json(assay, hsaco):
    document = assay("emulate", hsaco("vector_add"), *FULL, "--json").document
    sentence = DOCUMENT.read_text().split("alone on standard output:")[1].split("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", sentence)) - {"ran", "matched", "mismatch", "fault"} | {"fault"}
    assert named <= set(document)
    assert document["verdict"] == "ran"
