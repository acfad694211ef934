"""What opening costs, and what importing drags in."""

import subprocess
import sys
import time

import pytest

from assay.bundle import Bundle, select, write_bundle


@pytest.fixture(scope="module")
def thousand(factory, tmp_path_factory):
    rows, objects = factory.many_rows(1000)
    path = tmp_path_factory.mktemp("thousand") / "x.assay"
    write_bundle(path, factory.make_contents(rows, objects))
    return path, rows


def best_of(count, action):
    """The fastest of `count` runs, in milliseconds: what the work takes when nobody else uses the machine."""
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return min(taken) * 1e3


def test_a_bundle_of_1000_rows_opens_in_under_10_ms(thousand):
    path, _ = thousand
    assert best_of(15, lambda: Bundle.open(path).close()) < 10


def test_the_first_selection_among_1000_rows_of_one_family_takes_under_30_ms_from_the_file(thousand):
    path, rows = thousand
    request = {c.field: c.value for c in rows[500].conditions}

    def first():
        with Bundle.open(path) as bundle:
            selection = select(bundle.rows("decode_attention"), request)
            bundle.object_bytes(selection.row.object)

    # Measured 8 ms; the bound is for a machine that is busy with other tests.
    assert best_of(15, first) < 30


def test_a_row_costs_under_120_bytes_of_table(thousand):
    path, rows = thousand
    with Bundle.open(path) as bundle:
        assert bundle.sizes()["table"] < 120 * len(rows)


def test_reading_and_writing_bundles_needs_the_standard_library_alone():
    script = (
        "import sys; before = set(sys.modules);"
        "import assay.bundle as b; [getattr(b, name) for name in b.__all__];"
        "tops = {name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names);"
        "print(sorted(tops));"
        "print(sorted(n for n in sys.modules if n.startswith('assay.') and not n.startswith('assay.bundle')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['assay']", "[]"]
