"""Records behave as named tuples do, and cannot be changed."""

import copy
import pickle

import pytest

from assay.bundle import blobs, conditions, contents, faults, format, record, records, table, verdicts
from assay.bundle.record import Record


class Point(Record):
    """Two numbers."""

    __slots__ = ()

    x: int
    y: int = 5


def test_fields_are_had_by_position_and_by_name():
    for point in (Point(1, 2), Point(1, y=2), Point(y=2, x=1)):
        assert (point.x, point.y) == tuple(point) == (1, 2)
        assert point == Point(1, 2)
        assert hash(point) == hash(Point(1, 2))
    assert Point(1) == Point(1, 5)
    assert Point(1) != Point(2)


def test_a_record_says_what_is_in_it():
    assert repr(Point(1)) == "Point(x=1, y=5)"
    assert Point._fields == Point.__match_args__ == ("x", "y")
    assert Point._field_defaults == {"y": 5}


def test_a_changed_copy_leaves_the_first_alone():
    point = Point(1)
    assert point._replace(y=None) == Point(1, None)
    assert point == Point(1, 5)
    with pytest.raises(TypeError, match="Point has no field z"):
        point._replace(z=1)


@pytest.mark.parametrize(
    ("values", "named", "said"),
    [
        ((), {}, "missing: \\['x'\\]"),
        ((1, 2, 3), {}, "by position: 3"),
        ((1,), {"x": 1}, "unknown or twice: \\['x'\\]"),
        ((1,), {"z": 1}, "unknown or twice: \\['z'\\]"),
    ],
)
def test_every_field_is_given_once(values, named, said):
    with pytest.raises(TypeError, match=said):
        Point(*values, **named)


def test_copies_and_pickles_are_equal():
    for again in (copy.copy(Point(1)), copy.deepcopy(Point(1)), pickle.loads(pickle.dumps(Point(1)))):
        assert type(again) is Point
        assert again == Point(1)


def test_no_record_can_be_changed():
    modules = (blobs, conditions, contents, faults, format, record, records, table, verdicts)
    kinds = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    kinds = [kind for kind in kinds if issubclass(kind, Record) and kind is not Record]
    assert len(kinds) >= 13
    for kind in kinds:
        made = kind(*range(len(kind._fields)))
        for name in (kind._fields[0], "another"):
            with pytest.raises(AttributeError):
                setattr(made, name, 1)
