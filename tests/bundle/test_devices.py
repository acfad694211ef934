import pytest

from assay.bundle import ArchitectureMismatch, matching_targets


def names(factory, device):
    return [target.name for target in matching_targets(factory.TARGETS, device, "kernels.assay")]


def test_code_is_matched_to_its_own_architecture_alone(factory):
    assert names(factory, ("hip", "gfx1201")) == ["gfx1201"]
    assert names(factory, ("cuda", "sm_120a")) == ["sm120"]


def test_a_target_may_name_further_devices_that_run_its_code(factory):
    assert names(factory, ("cuda", "sm_120")) == ["sm120"]


@pytest.mark.parametrize(
    "device", [("hip", "gfx1200"), ("cuda", "sm_121"), ("cuda", "gfx1201"), ("hip", "sm_120a"), ("cuda", "sm_90a")]
)
def test_a_neighbour_or_the_other_backend_is_refused_with_both_sides_named(factory, device):
    with pytest.raises(ArchitectureMismatch) as caught:
        names(factory, device)
    text = str(caught.value)
    assert f"device ({device[0]}, {device[1]})" in text
    assert "(cuda, sm_120), (cuda, sm_120a), (hip, gfx1201)" in text


@pytest.mark.parametrize("arch", ["gfx1201:xnack-", "GFX1201", "amdgcn-amd-amdhsa--gfx1201"])
def test_another_spelling_is_refused_with_the_right_one(factory, arch):
    with pytest.raises(ArchitectureMismatch, match="give the architecture alone: gfx1201"):
        names(factory, ("hip", arch))


@pytest.mark.parametrize("device", ["gfx1201", ("hip",), None, ("hip", 1201), ["hip", "gfx1201"]])
def test_a_device_that_is_no_pair_is_refused(factory, device):
    with pytest.raises(ArchitectureMismatch, match="a pair of backend and architecture"):
        names(factory, device)


def test_an_unknown_backend_names_the_nearest(factory):
    with pytest.raises(ArchitectureMismatch, match="known: hip, cuda"):
        names(factory, ("hipp", "gfx1201"))
