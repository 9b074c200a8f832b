"""Small elements that matter: what step 44 loses of them, step 45 keeps."""

import numpy as np
import pytest

K = 128


def in_turn(powers):
    """A is so many powers of two smaller at odd k, B at even k: every product has one small operand."""
    rng = np.random.default_rng(1)
    odd = np.arange(K) % 2 == 1
    large_a, large_b = rng.uniform(0.5, 1, (16, K)), rng.uniform(0.5, 1, (K, 16))
    small = 0.7 * 2.0**-powers
    a, b = np.where(odd, small, large_a), np.where(odd[:, None], large_b, small)
    return a.astype(np.float32), b.astype(np.float32)


@pytest.fixture
def error(run, tmp_path):
    """The largest error of a step's product, as a share of |A||B|."""

    def of(step, a, b):
        np.save(tmp_path / "a.npy", a)
        np.save(tmp_path / "b.npy", b)
        run("--a", "a.npy", "--b", "b.npy", "--out", "out.npy", "--no-verify", step=step)
        a, b = a.astype(np.float64), b.astype(np.float64)
        return np.max(np.abs(np.load(tmp_path / "out.npy") - a @ b) / (np.abs(a) @ np.abs(b)))

    return of


def test_low_parts_are_subnormal_without_the_factor(error):
    """Where half of a line is 2^24 times smaller than the rest."""
    a, b = in_turn(24)
    as_it_is, scaled = (error(step, a, b) for step in ("44_splitting_pass", "45_scaled_low_parts"))
    assert as_it_is > 100 * scaled
    assert scaled < 8 * 2.0**-24


def test_where_all_bits_fit_the_factor_changes_little(error):
    a, b = in_turn(14)
    assert all(error(step, a, b) < 8 * 2.0**-24 for step in ("44_splitting_pass", "45_scaled_low_parts"))
