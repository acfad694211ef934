"""Nothing of the caller's shell reaches a compilation, and whatever would have changed code is named."""

import pytest

from assay.codegen.environment import compile_environment, ignored_overrides

OVERRIDES = {
    "TRITON_OVERRIDE_ARCH": "sm_89",
    "TRITON_DEFAULT_FP_FUSION": "0",
    "DISABLE_PTXAS_OPT": "1",
    "HSA_OVERRIDE_GFX_VERSION": "11.0.0",
    "TRITON_PTXAS_PATH": "/nowhere/ptxas",
    "TRITON_KERNEL_OVERRIDE": "1",
    "TRITON_ALWAYS_COMPILE": "0",
    "AMDGCN_USE_BUFFER_OPS": "0",
    "NVPTX_ENABLE_DUMP": "1",
    "LLVM_IR_ENABLE_DUMP": "1",
    "MLIR_ENABLE_DUMP": "1",
    "PTXAS_OPTIONS": "-O0",
    "USE_IR_LOC": "ttir",
}


def test_overrides_are_dropped_and_named_in_order():
    environment = compile_environment({**OVERRIDES, "PATH": "/bin"}, "/empty", line_info=False)
    assert not set(environment) & set(OVERRIDES)
    assert environment["PATH"] == "/bin"
    assert ignored_overrides(OVERRIDES) == sorted(OVERRIDES)


@pytest.mark.parametrize(
    "name", ["TRITON_CACHE_DIR", "TRITON_HOME", "PATH", "HOME", "ASSAY_CACHE_DIR", "CUDA_VISIBLE_DEVICES"]
)
def test_what_changes_no_code_is_not_warned_about(name):
    assert ignored_overrides({name: "x"}) == []


def test_tritons_cache_is_the_given_folder_whatever_the_shell_says():
    environment = compile_environment(
        {"TRITON_CACHE_DIR": "/poisoned", "TRITON_HOME": "/poisoned"}, "/empty", line_info=False
    )
    assert environment["TRITON_CACHE_DIR"] == "/empty"
    assert "/poisoned" not in environment.values()


@pytest.mark.parametrize(("line_info", "disabled"), [(False, "1"), (True, "0")])
def test_line_tables_are_made_only_when_asked_for(line_info, disabled):
    environment = compile_environment({"TRITON_DISABLE_LINE_INFO": "x"}, "/c", line_info=line_info)
    assert environment["TRITON_DISABLE_LINE_INFO"] == disabled
