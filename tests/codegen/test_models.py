"""Lists of models: the shipped one is right where it was published, and a wrong one is told whole, with positions."""

import pytest

from assay.codegen.models import load_models, pick_models
from assay.codegen.specs import SpecError

SHIPPED = {model.name: model for model in load_models()}

# name: query heads, KV heads, head_dim, layers.  Written down a second time, from the models' papers and cards.
PUBLISHED = {
    "Llama-2-70b": (64, 8, 128, 80),
    "Llama-3.2-1B": (32, 8, 64, 16),
    "Llama-3.2-3B": (24, 8, 128, 28),
    "Mixtral-8x22B": (48, 8, 128, 56),
    "Qwen2.5-7B": (28, 4, 128, 28),
    "Qwen2.5-14B": (40, 8, 128, 48),
    "Qwen3-30B-A3B": (32, 4, 128, 48),
    "Qwen3-235B-A22B": (64, 4, 128, 94),
    "gemma-2-27b": (32, 16, 128, 46),
    "gemma-3-1b": (4, 1, 256, 26),
    "gpt-oss-120b": (64, 8, 64, 36),
    "Phi-3-mini-4k": (32, 32, 96, 32),
    "phi-4": (40, 10, 128, 40),
    "starcoder2-3b": (24, 2, 128, 30),
    "falcon-40b": (128, 8, 64, 60),
    "glm-4-9b": (32, 2, 128, 40),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_shipped_list_has_the_published_figures(name):
    model = SHIPPED[name]
    layers = sum(kind.count for kind in model.layers)
    assert (model.q_heads, model.kv_heads, model.head_dim, layers) == PUBLISHED[name]


def test_windows_sinks_and_soft_caps_are_of_the_layers_that_have_them():
    def kinds(name):
        return [(kind.count, kind.window, kind.sinks, kind.soft_cap) for kind in SHIPPED[name].layers]

    assert kinds("Mistral-7B-v0.1") == [(32, 4096, False, None)]
    assert kinds("Mistral-7B-v0.3") == [(32, None, False, None)]
    assert kinds("gpt-oss-20b") == [(12, 128, True, None), (12, None, True, None)]
    assert kinds("gemma-2-9b") == [(21, 4096, False, 50.0), (21, None, False, 50.0)]
    assert kinds("gemma-3-27b") == [(52, 1024, False, None), (10, None, False, None)]
    assert kinds("gemma-3-1b") == [(22, 512, False, None), (4, None, False, None)]


def test_the_shipped_list_covers_what_the_field_uses():
    assert len(SHIPPED) >= 25
    groups = {model.q_heads // model.kv_heads for model in SHIPPED.values()}
    assert {1, 2, 3, 4, 5, 6, 7, 8, 12, 16} <= groups


def faults(tmp_path, text):
    path = tmp_path / "list.yaml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_models(path)
    return str(caught.value).replace(str(path), "list.yaml").splitlines()


def test_everything_wrong_in_a_list_is_told_at_once_with_its_position(tmp_path):
    assert faults(
        tmp_path,
        """schema: assay.models/1
models:
  - {name: a b, config: x, q_heads: 6, kv_heads: 4, head_dim: "128", layers: [{count: 0, windw: 3}]}
  - {name: ok, config: x, q_heads: 6, kv_heads: 3, head_dim: 128, layers: []}
""",
    ) == [
        "list.yaml:3:12: name: 'a b'; allowed: a name: letters, digits and _.-, 80 at most",
        "list.yaml:3:63: head_dim: '128'; allowed: an integer",
        "list.yaml:3:87: count: 0; allowed: greater than or equal to 1",
        "list.yaml:3:90: unknown key 'windw'; allowed: count, window, sinks, soft_cap; did you mean window?",
        "list.yaml:4:75: layers: []; allowed: at least 1 item",
    ]


def test_heads_that_do_not_divide_and_a_name_given_twice(tmp_path):
    assert faults(
        tmp_path,
        """schema: assay.models/1
models:
  - {name: ok, config: x, q_heads: 6, kv_heads: 4, head_dim: 128, layers: [{count: 1}]}
  - {name: OK, config: x, q_heads: 6, kv_heads: 3, head_dim: 128, layers: [{count: 1}]}
""",
    ) == [
        "list.yaml:3:49: kv_heads: 4; allowed: a divisor of the 6 query heads",
        "list.yaml:4:12: a second model 'OK'; allowed: each name once; the first is at list.yaml:3:12",
    ]


def test_models_are_picked_in_the_order_of_the_list_and_unknown_names_told_at_once():
    models = tuple(SHIPPED.values())
    assert [model.name for model in pick_models(models, ["PHI-4", "phi-2"], "--model")] == ["phi-2", "phi-4"]
    with pytest.raises(SpecError) as caught:
        pick_models(models, ["phi-5", "phi-2", "zzz"], "--model")
    assert [fault.given for fault in caught.value.faults] == ["'phi-5'", "'zzz'"]
