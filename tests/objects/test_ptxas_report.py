import pytest

from assay.objects import ObjectError, parse_ptxas_report

# The form of ptxas 13.0, less the compile times; the figures are made up so that each is its own.
REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'calls' for 'sm_90a'
ptxas info    : Function properties for calls
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 24 registers, used 0 barriers, 56 bytes cumulative stack size
ptxas info    : Function properties for _Z4pickPfi
    56 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Compiling entry function 'reverse' for 'sm_90a'
ptxas info    : Function properties for reverse
    728 bytes stack frame, 1000 bytes spill stores, 1004 bytes spill loads
ptxas info    : Used 14 registers, used 1 barriers, 728 bytes cumulative stack size, 1024 bytes smem
"""


def test_each_kernel_gets_its_own_figures():
    reports = parse_ptxas_report(REPORT)
    assert set(reports) == {"calls", "reverse"}
    reverse = reports["reverse"]
    assert (reverse.arch, reverse.registers, reverse.stack_bytes) == ("sm_90a", 14, 728)
    assert (reverse.spill_store_bytes, reverse.spill_load_bytes) == (1000, 1004)
    assert (reverse.shared_bytes, reverse.barriers) == (1024, 1)


def test_spills_of_functions_compiled_into_a_kernel_are_the_kernels():
    calls = parse_ptxas_report(REPORT)["calls"]
    assert (calls.spill_store_bytes, calls.spill_load_bytes, calls.stack_bytes) == (4, 12, 56)


def test_the_blackwell_assemblers_own_name_does_not_matter():
    assert parse_ptxas_report(REPORT.replace("ptxas info ", "ptxas-blackwell info ")) == parse_ptxas_report(REPORT)


@pytest.mark.parametrize("lost", ["stack frame", "Used 14", "Function properties for reverse", "entry function 'rev"])
def test_a_kernel_whose_lines_are_incomplete_is_missing_and_not_zero(lost):
    text = "\n".join(line for line in REPORT.splitlines() if lost not in line)
    assert "reverse" not in parse_ptxas_report(text)


@pytest.mark.parametrize("text", ["", "ptxas fatal : Ptx assembly aborted due to errors", "0 bytes stack frame"])
def test_text_without_a_report_gives_no_kernels(text):
    assert parse_ptxas_report(text) == {}


def test_one_kernel_for_two_architectures_is_ambiguous():
    with pytest.raises(ObjectError, match="twice"):
        parse_ptxas_report(REPORT + REPORT.replace("sm_90a", "sm_120a"))
