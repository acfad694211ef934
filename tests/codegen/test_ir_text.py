"""Two IR texts hash alike when only printing tells them apart, and differ when anything else does."""

import dataclasses

import pytest

from assay.codegen.ir_text import ir_sha256
from assay.codegen.worker import compile_in_worker

TEXT = """\
#blocked = #ttg.blocked<{sizePerThread = [1], order = [0]}>
#loc = loc("/home/a/kernel.py":3:0)
#loc4 = loc("x"(#loc))
module attributes {"ttg.num-warps" = 4 : i32, ttg.target = "hip:gfx1201"} {
  tt.func public @kernel(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x"(#loc)), %n: i32 loc(#loc)) {
    %c4_i32 = arith.constant 4 : i32 loc(#loc)
    %cst = arith.constant dense<1.0> : tensor<64xf32, #blocked> loc(#loc1)
    %0 = tt.get_program_id x : i32 loc(callsite(#loc at #loc4))
    %1 = arith.muli %0, %c4_i32 : i32 loc(#loc)
    %2 = tt.elementwise_inline_asm "v_cvt $0, $1; %c4 #blocked" {pure = true} %1 : i32 -> i32 loc(#loc)
    %3 = amdg.buffer_load %x[%2], %cst {contiguity = 2 : i32} : tensor<64xf32, #blocked> loc(#loc)
    %4:2 = scf.for %i = %0 to %n step %c4_i32 iter_args(%a = %cst) -> (i32, i32) loc(#loc)
    amdg.buffer_store %3, %x[%4#1] : tensor<64xf32, #blocked> loc(#loc)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
"""
CONSTANTS = """\
    %c4_i32 = arith.constant 4 : i32 loc(#loc)
    %cst = arith.constant dense<1.0> : tensor<64xf32, #blocked> loc(#loc1)
"""
SWAPPED = "".join(reversed(CONSTANTS.splitlines(keepends=True)))

PRINTING = {
    "another place in another file": ('"/home/a/kernel.py":3:0', '"/b/(odd) name.py":99:1'),
    "no location": (" loc(callsite(#loc at #loc4))", ""),
    "another location alias": ('#loc4 = loc("x"(#loc))\n', ""),
    "constants in another order": (CONSTANTS, SWAPPED),
    "the pointer type of a buffer load": (
        "{contiguity = 2 : i32} : tensor",
        "{contiguity = 2 : i32} : !tt.ptr<f32> -> tensor",
    ),
    "the pointer type of a buffer store": ("%x[%4#1] : tensor", "%x[%4#1] : !tt.ptr<f32> -> tensor"),
    "what is not so": ('ttg.target = "hip:gfx1201"}', 'ttg.target = "hip:gfx1201", "ttng.two-ctas" = false}'),
}
MEANING = {
    "another constant": ("constant 4 : i32", "constant 8 : i32"),
    "another layout": ("sizePerThread = [1]", "sizePerThread = [2]"),
    "another operation": ("arith.muli", "arith.addi"),
    "operands the other way round": ("%0, %c4_i32 :", "%c4_i32, %0 :"),
    "another result of several": ("%4#1", "%4#0"),
    "other inline assembly": ("v_cvt $0", "v_mov $0"),
    "a name inside inline assembly": ("; %c4 #blocked", "; %c5 #blocked"),
    "another promise": ("tt.divisibility = 16", "tt.divisibility = 8"),
    "another number of warps": ('"ttg.num-warps" = 4', '"ttg.num-warps" = 8'),
    "two CTAs": ('ttg.target = "hip:gfx1201"}', 'ttg.target = "hip:gfx1201", "ttng.two-ctas" = true}'),
    "another target": ("hip:gfx1201", "hip:gfx1200"),
    "one operation less": ("    tt.return loc(#loc)\n", ""),
}


def edited(change):
    old, new = change
    assert TEXT.count(old) == 1
    return TEXT.replace(old, new)


@pytest.mark.parametrize("name", PRINTING)
def test_what_only_printing_decides_does_not_count(name):
    assert ir_sha256(edited(PRINTING[name])) == ir_sha256(TEXT)


@pytest.mark.parametrize("name", MEANING)
def test_everything_else_counts(name):
    assert ir_sha256(edited(MEANING[name])) != ir_sha256(TEXT)


def test_names_of_values_and_layouts_do_not_count():
    renamed = TEXT.replace("#blocked", "#other7").replace('%c4 #other7"', '%c4 #blocked"')
    renamed = renamed.replace("%0", "%pid").replace("%c4_i32", "%c4_i32_0").replace("%n", "%count")
    assert renamed != TEXT
    assert ir_sha256(renamed) == ir_sha256(TEXT)


def test_each_function_has_names_of_its_own():
    """Merged into one list of names, the second function's values would depend on how many the first has."""
    function = "  tt.func private @f(%a: i32) {\n    %0 = arith.addi %a, %a : i32\n    tt.return %0 : i32\n  }\n"
    longer = function.replace("    tt.return", "    %1 = arith.addi %0, %0 : i32\n    tt.return")
    hashes = {ir_sha256(f"module {{\n{first}{function}}}\n") for first in (function, longer)}
    assert len(hashes) == 2


@pytest.fixture(scope="module")
def compiled(make_variants, tmp_path_factory):
    """Compiles the toy kernel on gfx1201 with a line of its source replaced: `compiled("old", "new")["ir_sha256"]`."""
    request = make_variants("gfx1201")[0].request

    def compile_with(old="", new=""):
        assert not old or request.source.count(old) == 1
        changed = dataclasses.replace(request, source=request.source.replace(old, new) if old else request.source)
        return compile_in_worker(changed.to_dict(), str(tmp_path_factory.mktemp("ir") / "scratch"))

    return compile_with


def test_a_comment_leaves_the_hash_and_a_changed_constant_does_not(compiled, make_variants):
    source = make_variants("gfx1201")[0].request.source
    line = next(line for line in source.splitlines() if "factor" in line and "def" not in line and "*" in line)
    plain = compiled()
    assert plain["status"] == "compiled"
    commented = compiled(line, f"    # why this is so\n\n{line}  # and so")
    scaled = compiled(line, line.replace("factor", "(factor * 3)"))
    assert commented["ir_sha256"] == plain["ir_sha256"]
    assert (scaled["status"], scaled["ir_sha256"] != plain["ir_sha256"]) == ("compiled", True)
    assert plain["cpu_seconds"] > 0
