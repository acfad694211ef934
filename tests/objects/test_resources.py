import json

import pytest

from assay.objects import ObjectError, Resources

NAMES = [
    "vgpr_count",
    "sgpr_count",
    "vgpr_spill_count",
    "sgpr_spill_count",
    "scratch_bytes",
    "dynamic_stack",
    "lds_static_bytes",
    "lds_dynamic_bytes",
    "lds_total_bytes",
    "max_threads",
    "wavefront_size",
    "kernarg_bytes",
    "code_bytes",
    "register_count",
    "stack_bytes",
    "local_load_count",
    "local_store_count",
    "spill_load_bytes",
    "spill_store_bytes",
]


def test_names_and_their_order_are_the_published_ones():
    assert list(Resources().to_dict()) == NAMES


def test_what_nobody_told_is_none_and_not_zero():
    assert set(Resources().to_dict().values()) == {None}


def test_launch_size_adds_to_the_static_size():
    resources = Resources(lds_static_bytes=100).with_launch(65536)
    assert (resources.lds_dynamic_bytes, resources.lds_total_bytes) == (65536, 65636)


def test_total_stays_unknown_while_the_static_size_is():
    resources = Resources().with_launch(1024)
    assert (resources.lds_dynamic_bytes, resources.lds_total_bytes) == (1024, None)


def test_assembler_report_fills_only_the_spill_bytes():
    resources = Resources(register_count=40).with_assembler_report(spill_load_bytes=8, spill_store_bytes=4)
    assert resources == Resources(register_count=40, spill_load_bytes=8, spill_store_bytes=4)


@pytest.mark.parametrize("wrong", [-1, True, 1.0, None, "8"])
def test_sizes_that_are_no_count_are_refused(wrong):
    with pytest.raises(ObjectError):
        Resources().with_launch(wrong)
    with pytest.raises(ObjectError):
        Resources().with_assembler_report(0, wrong)


def test_dictionary_survives_json():
    resources = Resources(vgpr_count=12, dynamic_stack=False, lds_static_bytes=0)
    assert Resources.from_dict(json.loads(json.dumps(resources.to_dict()))) == resources


@pytest.mark.parametrize(
    "change",
    [{"vgpr_count": "12"}, {"vgpr_count": True}, {"vgpr_count": -1}, {"dynamic_stack": 0}, {"vgprs": 1}],
)
def test_dictionary_of_another_shape_is_refused(change):
    with pytest.raises(ObjectError):
        Resources.from_dict(Resources().to_dict() | change)


def test_a_forgotten_name_does_not_come_back_as_unknown():
    values = Resources().to_dict()
    del values["vgpr_spill_count"]
    with pytest.raises(ObjectError, match="vgpr_spill_count"):
        Resources.from_dict(values)
