""".npy in and out, against NumPy in double precision."""

import numpy as np
import pytest

SHAPES = [(35, 79, 19), (1, 1, 1), (1, 130, 3), (131, 1, 9), (7, 5, 1), (64, 64, 64), (5, 3, 1030)]
EMPTY = [(0, 5, 7), (5, 0, 7), (5, 7, 0), (0, 0, 0)]


def random(rng, *shape):
    return rng.uniform(-1, 1, shape).astype(np.float32)


def assert_product(c, a, b, alpha=1.0, beta=0.0, old=None):
    """c = alpha a b + beta old, up to the rounding errors of single precision in any order of summation."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    reference = alpha * (a @ b)
    magnitude = abs(alpha) * (np.abs(a) @ np.abs(b))
    if beta != 0:
        reference += beta * old.astype(np.float64)
        magnitude += np.abs(beta * old)
    assert c.dtype == np.float32
    assert c.shape == reference.shape
    bound = (a.shape[-1] + 4) * 2.0**-24 * magnitude + np.finfo(np.float32).tiny
    np.testing.assert_array_less(np.abs(c - reference), np.maximum(bound, 1e-300))


@pytest.fixture
def multiply(passes, tmp_path):
    """Has a step multiply arrays; returns what it wrote."""

    def run_on_files(a, b, *options, old=None, **keywords):
        np.save(tmp_path / "a.npy", a)
        np.save(tmp_path / "b.npy", b)
        arguments = ["--a", "a.npy", "--b", "b.npy", "--out", "out.npy", *options]
        expected = {"a.npy", "b.npy", "out.npy"}
        if old is not None:
            np.save(tmp_path / "c.npy", old)
            arguments += ["--c", "c.npy"]
            expected.add("c.npy")
        passes(*arguments, **keywords)
        assert {path.name for path in tmp_path.iterdir()} == expected
        return np.load(tmp_path / "out.npy")

    return run_on_files


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.mark.parametrize("m, n, k", SHAPES + EMPTY)
def test_row_major(multiply, rng, m, n, k):
    a, b = random(rng, m, k), random(rng, k, n)
    c = multiply(a, b)
    assert c.flags.c_contiguous
    assert_product(c, a, b)


@pytest.mark.parametrize("m, n, k", SHAPES + EMPTY)
def test_column_major(multiply, rng, m, n, k):
    a, b = np.asfortranarray(random(rng, m, k)), np.asfortranarray(random(rng, k, n))
    c = multiply(a, b, "--layout", "col")
    assert c.flags.f_contiguous
    assert_product(c, a, b)


def test_both_layouts_agree(multiply, rng):
    """The column-major product of A and B is the transpose of the row-major product of B^T and A^T."""
    a, b, old = random(rng, 35, 19), random(rng, 19, 79), random(rng, 35, 79)
    options = ("--alpha", "-0.5", "--beta", "2")
    col = multiply(
        np.asfortranarray(a), np.asfortranarray(b), "--layout", "col", *options, old=np.asfortranarray(old)
    )
    transposed = multiply(b.T.copy(), a.T.copy(), *options, old=old.T.copy())
    np.testing.assert_array_equal(col, transposed.T)
    assert_product(col, a, b, -0.5, 2, old)


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_batch(multiply, rng, batch):
    a, b, old = random(rng, batch, 35, 19), random(rng, batch, 19, 33), random(rng, batch, 35, 33)
    c = multiply(a, b, "--alpha", "2", "--beta", "-0.5", old=old)
    if batch == 1:
        c = c.reshape(1, *c.shape)  # a batch of one is a matrix
    assert_product(c, a, b, 2, -0.5, old)


@pytest.mark.parametrize("alpha, beta", [(1, 1), (0, 2), (-0.5, -0.5), (0, 0), (3, 0)])
def test_alpha_and_beta(multiply, rng, alpha, beta):
    a, b, old = random(rng, 33, 9), random(rng, 9, 31), random(rng, 33, 31)
    c = multiply(a, b, "--alpha", alpha, "--beta", beta, old=old if beta else None)
    assert_product(c, a, b, alpha, beta, old)


def test_leading_dimensions(multiply, rng):
    a, b, old = random(rng, 33, 9), random(rng, 9, 31), random(rng, 33, 31)
    c = multiply(a, b, "--lda", 12, "--ldb", 40, "--ldc", 33, "--beta", 1, old=old)
    assert_product(c, a, b, 1, 1, old)


def test_sizes_may_be_repeated(multiply, rng):
    a, b = random(rng, 33, 9), random(rng, 9, 31)
    assert_product(multiply(a, b, "--m", 33, "--n", 31, "--k", 9), a, b)


@pytest.mark.parametrize("scale, alpha", [(1e25, 1e-30), (1e-25, 1e38)])
def test_extreme_scales(multiply, rng, scale, alpha):
    """The sum overflows, or vanishes, before alpha is applied: that is no mistake of the step."""
    a, b = random(rng, 33, 9), random(rng, 9, 31)
    multiply(a * np.float32(scale), b * np.float32(scale), "--alpha", alpha)


def test_nan_and_infinity_stay_in_their_rows_and_columns(multiply, rng):
    a, b = random(rng, 33, 9), random(rng, 9, 31)
    a[4, 8], b[0, 30] = np.nan, np.inf
    c = multiply(a, b)
    assert np.isnan(c[4, :]).all()
    assert not np.isfinite(c[:, 30]).any()
    finite = np.delete(np.delete(c, 4, 0), 30, 1)
    assert_product(finite, np.delete(a, 4, 0), np.delete(b, 30, 1))


def test_data_far_from_random(multiply):
    """All roundings go one way: an element drops out of a sum of thousands that are tiny against it."""
    a = np.full((3, 4000), 1.9375 * 2.0**-25, np.float32)
    a[:, 0] = 1
    b = np.ones((4000, 2), np.float32)
    assert_product(multiply(a, b), a, b)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions_of_the_format(passes, tmp_path, rng, version):
    a, b = random(rng, 8, 9), random(rng, 9, 10)
    for name, array in ("a.npy", a), ("b.npy", b):
        with (tmp_path / name).open("wb") as file:
            np.lib.format.write_array(file, array, version=version)
    passes("--a", "a.npy", "--b", "b.npy", "--out", "c.npy")
    assert_product(np.load(tmp_path / "c.npy"), a, b)


def test_result_replaces_its_own_input(passes, tmp_path, rng):
    a, b, old = random(rng, 8, 9), random(rng, 9, 10), random(rng, 8, 10)
    for name, array in ("a.npy", a), ("b.npy", b), ("c.npy", old):
        np.save(tmp_path / name, array)
    passes("--a", "a.npy", "--b", "b.npy", "--c", "c.npy", "--beta", 1, "--out", "c.npy")
    assert_product(np.load(tmp_path / "c.npy"), a, b, 1, 1, old)


def test_random_matrices_depend_on_the_seed_alone(passes, tmp_path):
    def product(name, *options):
        passes("--m", 35, "--n", 79, "--k", 19, "--out", name, *options)
        return np.load(tmp_path / name)

    first = product("1.npy")
    assert first.shape == (35, 79)
    assert np.isfinite(first).all()
    np.testing.assert_array_equal(first, product("2.npy", "--seed", 1))
    np.testing.assert_array_equal(first, product("3.npy", "--lda", 50, "--ldc", 80))
    np.testing.assert_array_equal(first, product("4.npy", "--repeat", 3))
    np.testing.assert_array_equal(first, product("5.npy", "--no-verify"))
    assert (first != product("6.npy", "--seed", 2)).mean() > 0.9
    a_different_step = product("7.npy", "--check")
    np.testing.assert_array_equal(first, a_different_step)


def test_out_of_a_batch(passes, tmp_path):
    passes("--size", 8, "--batch", 3, "--out", "c.npy")
    c = np.load(tmp_path / "c.npy")
    assert c.shape == (3, 8, 8)
    assert not np.array_equal(c[0], c[1])
