"""`assay kv-size`: the field's figures from numbers and from the list, and bad input."""

NUMBERS = ("--layers", "48", "--kv-heads", "4", "--head-dim", "128")
ONE = """schema: assay.models/1
models:
  - name: odd
    config: somebody/odd
    q_heads: 8
    kv_heads: 2
    head_dim: 192
    head_dim_v: 128
    layers: [{count: 3}, {count: 2, window: 512}]
"""


def test_the_figures_of_the_field(assay):
    ran = assay("kv-size", *NUMBERS, "--tokens", "33059", "--json")
    assert (ran.status, ran.document["schema"], ran.document["model"]) == (0, "assay.kv-size/1", None)
    by_format = {entry["kv_format"]: entry for entry in ran.document["formats"]}
    bf16, fp8 = by_format["bf16"], by_format["fp8_per_token_head"]
    assert (bf16["bytes_per_token"], bf16["cache_bytes"], bf16["workspace_bytes"]) == (98_304, 3_249_831_936, 0)
    assert (fp8["bytes_per_token"], fp8["element_bytes_per_token"], fp8["scale_bytes_per_token"]) == (
        50_688,
        49_152,
        1_536,
    )
    assert (fp8["cache_bytes"], fp8["workspace_bytes"]) == (1_675_694_592, 67_704_832)
    assert (bf16["saved_percent"], fp8["saved_percent"]) == (0.0, 46.35)


def test_a_listed_model_is_its_numbers(assay):
    """Qwen3-30B-A3B is the field's model: 48 layers, 4 KV heads, 128."""
    listed, given = assay("kv-size", "qwen3-30b-a3b", "--json"), assay("kv-size", *NUMBERS, "--json")
    assert listed.document.pop("model") == "Qwen3-30B-A3B"
    assert listed.document["formats"] == given.document["formats"]


def test_the_table_has_a_column_for_each_format_asked_for(assay):
    ran = assay("kv-size", *NUMBERS, "--tokens", "33059", "--format", "fp8_per_token_head")
    assert ran.status == 0
    assert "1,675,694,592" in ran.out
    assert "46.35 %" in ran.out
    assert "bf16" not in ran.out


def test_no_figure_is_cut_on_a_narrow_terminal(assay, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    ran = assay("kv-size", *NUMBERS, "--tokens", "33059")
    assert ran.status == 0
    assert "…" not in ran.out
    for figure in ("3,249,831,936", "1,743,399,424", "fp8_per_token_head", "int8_per_token_head", "46.35 %"):
        assert figure in ran.out


def test_a_list_of_ones_own_and_layers_of_all_kinds(assay, tmp_path):
    (tmp_path / "own.yaml").write_text(ONE)
    ran = assay("kv-size", "odd", "--models", tmp_path / "own.yaml", "--format", "bf16", "--json")
    assert (ran.document["layers"], ran.document["head_dim_v"]) == (5, 128)
    assert ran.document["formats"][0]["cache_bytes"] == 5 * 2 * (192 + 128) * 2


def test_everything_wrong_is_told_at_once(assay):
    ran = assay("kv-size", "qwen3-30b-a3", "--layers", "3", "--tokens", "0", "--format", "fp8", "--json")
    assert (ran.status, ran.out) == (2, "")
    for said in ("--layers: 3", "did you mean Qwen3-30B-A3B?", "--format: 'fp8'", "--tokens: 0"):
        assert said in ran.said
    ran = assay("kv-size", "--layers", "0", "--models", "x.yaml")
    assert ran.status == 2
    for said in ("--layers: 0", "--kv-heads: not given", "--head-dim: not given", "--models: x.yaml"):
        assert said in ran.said
    assert assay("kv-size", "x", "--models", "missing.yaml").status == 2


def test_a_number_of_tokens_below_1_is_told_once(assay):
    ran = assay("kv-size", *NUMBERS, "--tokens", "-3")
    assert (ran.status, ran.said.strip()) == (2, "--tokens: -3; allowed: an integer of at least 1")
