from assay.objects import count_instructions_amdgcn

TEXT = """\
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx1201"
\t.text
kernel:                                 ; @kernel
; %bb.0:
\ts_load_b128 s[4:7], s[0:1], 0x0
\ts_wait_kmcnt 0x0                      ; v_not_counted v0, v1
\tv_dual_mul_f32 v0, v1, v2 :: v_dual_add_f32 v3, v4, v5
\t;;#ASMSTART
\tv_cvt_pk_f32_fp8_e64 v[0:1], v2 op_sel:[1,0]
\t;;#ASMEND
\tv_add_f32_e32 v0, v1, v2 // v_also_not v0
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
label: s_nop 0
/* s_nop 1 */
\ts_endpgm
\t.section\t.rodata,"a",@progbits
\t.amdhsa_kernel kernel
\t\t.amdhsa_next_free_vgpr 4
\t.end_amdhsa_kernel
\t.long v_data
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .args:
      - .name: v_add_f32
    vgpr_spill_count 3
...
\t.end_amdgpu_metadata
"""


def test_only_instructions_count_and_dual_ones_twice():
    assert count_instructions_amdgcn(TEXT) == {
        "s_load_b128": 1,
        "s_wait_kmcnt": 1,
        "v_dual_mul_f32": 1,
        "v_dual_add_f32": 1,
        "v_cvt_pk_f32_fp8_e64": 1,
        "v_add_f32_e32": 1,
        "s_nop": 1,
        "s_endpgm": 1,
    }


def test_text_without_instructions_counts_nothing():
    assert count_instructions_amdgcn("") == {}
    assert count_instructions_amdgcn("; s_endpgm\n\t.long 3\n") == {}


def test_a_compiled_kernel_shows_what_it_must_contain(compiled):
    counts = count_instructions_amdgcn(compiled("spills.gfx1200.amdgcn").decode())
    assert counts["v_wmma_f32_16x16x16_bf16"] > 0
    assert counts["s_endpgm"] == 1
    assert all(name.split("_")[0] in {"s", "v", "ds", "global", "scratch", "buffer", "flat"} for name in counts)
