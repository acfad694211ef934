"""The protocol of the GPU benchmarks: order, samples and the drift gate."""

import argparse

import pytest


@pytest.fixture
def protocol():
    import protocol

    return protocol


def test_each_round_times_every_candidate_once_in_an_order_of_its_own(protocol):
    names = [str(number) for number in range(12)]
    orders = list(protocol.orders(names, rounds=9, seed=3))
    assert all(sorted(order) == sorted(names) for order in orders)
    assert len({tuple(order) for order in orders}) == 9


def test_the_seed_decides_the_order(protocol):
    names = [str(number) for number in range(12)]
    first, again, other = (list(protocol.orders(names, 5, seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_samples_are_taken_in_the_shuffled_order_and_kept_in_that_of_the_rounds(protocol):
    clock = iter(range(1000))
    names = ["a", "b", "c", "d"]
    taken = protocol.sampled({name: lambda: float(next(clock)) for name in names}, rounds=7, seed=5)
    assert {name: [int(sample) // 4 for sample in samples] for name, samples in taken.items()} == {
        name: list(range(7)) for name in names
    }
    for number, order in enumerate(protocol.orders(names, 7, 5)):
        assert sorted(names, key=lambda name: taken[name][number]) == order


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([10.0] * 9, 1.0),
        ([10.0, 10.0, 90.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0], 1.0),  # one slow sample is no drift
        ([10.0] * 6 + [12.0] * 3, 1.2),
        ([12.0] * 3 + [10.0] * 6, 1.2),
        ([10.0, 10.0, 10.0, 8.0, 8.0, 8.0, 10.0, 10.0, 10.0], 1.25),  # neither end shows it
        ([1.0, 2.0, 4.0], 4.0),
        ([10.0, 10.0, 10.0, 10.0, 11.0], 1.05),  # thirds of one, two and two
    ],
)
def test_drift_is_the_largest_of_the_thirds_medians_over_the_smallest(protocol, samples, expected):
    assert protocol.drift(samples) == pytest.approx(expected)


@pytest.mark.parametrize(("last", "drifted"), [(11.0, False), (11.01, True)])
def test_the_gate_lets_a_tenth_pass_and_no_more(protocol, last, drifted):
    result = protocol.summary([10.0] * 6 + [last] * 3)
    assert result["drifted"] is drifted
    assert ("descriptive only" in protocol.mark(result)) is drifted


def test_a_summary_keeps_every_sample_in_order(protocol):
    samples = [5.0, 3.0, 4.0, 100.0, 4.0, 4.0]
    result = protocol.summary(samples)
    assert (result["samples_us"], result["median_us"], result["least_us"]) == (samples, 4.0, 3.0)


def test_what_is_declared_names_the_gate_and_the_seed(protocol):
    assert protocol.declared(9, 4).items() >= {"rounds": 9, "seed": 4, "drift_limit": 1.10}.items()


def test_fewer_rounds_than_thirds_are_refused(protocol, capsys):
    parser = argparse.ArgumentParser()
    protocol.add_options(parser, rounds=9)
    assert parser.parse_args([]).rounds == 9
    with pytest.raises(SystemExit, match="2"):
        parser.parse_args(["--rounds", "2"])
    assert "at least 3" in capsys.readouterr().err
