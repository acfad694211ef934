"""What takes the place of an instruction computes the very same, term for term; all else stays or is refused."""

import re

import pytest

from assay.codegen.ptx_rewriting import RewritingError, rewrite

HEAD = ".version 9.3\n.target sm_120a\n.address_size 64\n.visible .entry k()\n{\n\t.reg .b64 %rd<9>;\n"
ROUNDED = [f".{rounding}{ftz}" for rounding in ("rn", "rz", "rm", "rp") for ftz in ("", ".ftz")]


def rewritten(body, arch="sm_90a"):
    return rewrite(f"{HEAD}\t{body}\n\tret;\n}}\n", "sm_120a", arch, "k")


def body_of(result):
    return result.text.split("%rd<9>;\n", 1)[1]


class Machine:
    """Runs the instructions that may come out, on terms in the place of numbers."""

    def __init__(self, **registers):
        self.registers = registers

    def run(self, text):
        for line in text.splitlines():
            statement = line.strip()
            if statement.endswith(";") and not statement.startswith((".reg", "//", "ret")):
                self.step(statement.rstrip(";"))
        return self

    def step(self, statement):
        opcode, operands = statement.split(" ", 1)
        destination, *sources = re.findall(r"\{[^}]*\}|[^,\s]+", operands)
        if opcode == "mov.b64" and destination.startswith("{"):
            self.registers.update(zip(split(destination), self.registers[sources[0]], strict=True))
        elif opcode == "mov.b64":
            self.registers[destination] = tuple(self.registers[name] for name in split(sources[0]))
        else:
            self.registers[destination] = (opcode, *(self.registers.get(name, name) for name in sources))


def split(vector):
    return [name.strip() for name in vector.strip("{}").split(",")]


def packed(*names):
    return {f"%{name}": (f"{name}.low", f"{name}.high") for name in names}


@pytest.mark.parametrize("opcode", ["add", "sub", "mul", "fma"])
@pytest.mark.parametrize("modifiers", ["", ".ftz", *ROUNDED])
def test_a_packed_instruction_becomes_the_same_on_each_half(opcode, modifiers):
    sources = ["a", "b", "c"][: 3 if opcode == "fma" else 2]
    result = rewritten(f"{opcode}{modifiers}.f32x2 %d, {', '.join('%' + name for name in sources)};")
    machine = Machine(**packed("d", *sources)).run(body_of(result))
    halves = [(f"{opcode}{modifiers}.f32", *(f"{name}.{half}" for name in sources)) for half in ("low", "high")]
    assert machine.registers["%d"] == tuple(halves)
    assert result.instructions == {f"{opcode}{modifiers}.f32x2": 1}


@pytest.mark.parametrize("destination", ["a", "b", "c"])
def test_the_destination_may_be_a_source(destination):
    result = rewritten(f"fma.rn.f32x2 %{destination}, %a, %b, %c;")
    machine = Machine(**packed("a", "b", "c")).run(body_of(result))
    halves = [("fma.rn.f32", f"a.{half}", f"b.{half}", f"c.{half}") for half in ("low", "high")]
    assert machine.registers[f"%{destination}"] == tuple(halves)


@pytest.mark.parametrize("opcode", ["max", "min"])
@pytest.mark.parametrize("modifiers", ["", ".ftz", ".NaN", ".ftz.NaN"])
def test_three_inputs_become_two_steps(opcode, modifiers):
    result = rewritten(f"{opcode}{modifiers}.f32 %d, %a, %b, 0fFF800000;")
    machine = Machine(**{"%a": "a", "%b": "b"}).run(body_of(result))
    name = f"{opcode}{modifiers}.f32"
    assert machine.registers["%d"] == (name, (name, "a", "b"), "0fFF800000")
    assert result.instructions == {f"{name} of three": 1}


@pytest.mark.parametrize("destination", ["a", "b", "c"])
def test_the_third_input_is_read_before_it_is_overwritten(destination):
    result = rewritten(f"max.f32 %{destination}, %a, %b, %c;")
    machine = Machine(**{"%a": "a", "%b": "b", "%c": "c"}).run(body_of(result))
    assert machine.registers[f"%{destination}"] == ("max.f32", ("max.f32", "a", "b"), "c")


@pytest.mark.parametrize("guard", ["@%p1", "@!%p1"])
@pytest.mark.parametrize("instruction", ["add.f32x2 %d, %a, %b;", "min.f32 %d, %a, %b, %c;"])
def test_a_guard_stands_before_everything_that_is_written(guard, instruction):
    result = rewritten(f"{guard} {instruction}")
    lines = [line.strip() for line in body_of(result).splitlines() if line.strip().endswith(";")]
    written = [line for line in lines if not line.startswith(".reg") and line != "ret;"]
    assert written
    assert all(line.startswith(f"{guard} ") for line in written)


def test_two_input_forms_comments_and_everything_else_stay():
    lines = [
        "max.f32 \t%r1, %r2, %r3;",
        "// fma.rn.f32x2 %rd1, %rd2, %rd3, %rd4;",
        "/* max.f32 %r1, %r2,",
        "   %r3, %r4; */",
        "griddepcontrol.wait;",
        "fma.rn.f32 %r1, %r2, %r3, %r4;",
        "{ .reg .b32 %x; cvt.rn.f16x2.e4m3x2 %x, %rs1; }",
        "st.global.v2.b32 [ %rd1 + 0 ], { %r1, %r2 };",
    ]
    body = "\n".join(lines)
    result = rewritten(body)
    assert body in result.text
    assert result.instructions == {}


def test_the_target_line_is_the_only_other_change():
    result = rewritten("bar.sync 0;")
    assert ".target sm_90a\n" in result.text
    assert result.text.replace("sm_90a", "sm_120a") == f"{HEAD}\tbar.sync 0;\n\tret;\n}}\n"


def test_registers_of_a_block_do_not_hide_those_of_the_text():
    result = rewritten("add.f32x2 %part0, %part1, %part2;")
    assert "mov.b64 {%part_0, %part_1}, %part1;" in result.text


def test_instructions_on_one_line_are_each_rewritten():
    result = rewritten("{ add.f32x2 %a, %a, %b; @%p2 add.f32x2 %b, %a, %b; }")
    assert result.instructions == {"add.f32x2": 2}
    assert "f32x2" not in re.sub("//[^\n]*", "", result.text)


REFUSED = {
    "add.rna.f32x2 %a, %b, %c;": "add, sub, mul, fma with",
    "add.rn.sat.f32x2 %a, %b, %c;": "add, sub, mul, fma with",
    "cvt.rn.f16x2.f32x2 %a, %b;": "add, sub, mul, fma with",
    "add.f32x2 {%r1, %r2}, %b, %c;": "3 registers",
    "fma.rn.f32x2 %a, %b, %c;": "4 registers",
    "max.abs.f32 %a, %b, %c, %d;": "three inputs of max or min",
    "max.xorsign.abs.f32 %a, %b, %c, %d;": "three inputs of max or min",
    "min.f16x2 %a, %b, %c, %d;": "three inputs of max or min",
    "min.f32 {%a}, %b, %c, %d;": "a register",
}


@pytest.mark.parametrize("instruction", REFUSED)
def test_what_has_no_exact_equivalent_is_refused_by_name_and_line(instruction):
    with pytest.raises(RewritingError) as raised:
        rewritten(instruction)
    (fault,) = raised.value.faults
    assert fault.where == "k: line 7"
    assert instruction.rstrip(";") in fault.given
    assert REFUSED[instruction] in fault.allowed


def test_everything_is_refused_at_once():
    with pytest.raises(RewritingError) as raised:
        rewritten("\n".join(REFUSED))
    assert [fault.where for fault in raised.value.faults] == [f"k: line {7 + at}" for at in range(len(REFUSED))]


@pytest.mark.parametrize(
    ("line", "given"), [("", "none"), (".target sm_100a\n", "sm_100a"), (".target sm_120\n", "sm_120")]
)
def test_text_of_another_target_is_refused(line, given):
    with pytest.raises(RewritingError) as raised:
        rewrite(f".version 9.3\n{line}.entry k() {{ ret; }}", "sm_120a", "sm_90a", "k")
    (fault,) = raised.value.faults
    assert (fault.where, fault.given) == ("k: .target", given)
