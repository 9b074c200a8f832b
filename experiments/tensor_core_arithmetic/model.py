"""What a tensor core may add up: the models of common/cpu_device/tensor_core.hpp, for many elements at once.

Written apart from those, for numpy; tests hold the two against each other. A Model says what its fields mean
by the same names. Operands are bits of floats (uint32) of at most 11 bits of significand.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

Bits = np.ndarray  # of uint32
Ints = np.ndarray  # of int64

NAN = np.uint32(0x7FFFFFFF)
LEAST = (-133, -1000)  # exponents that are tried
ROUNDINGS = ("to_zero", "down", "to_nearest")


@dataclass(frozen=True)
class Model:
    products: int  # of a step; K / products steps, k ascending
    fraction_bits: int  # kept below the place of the largest exponent
    terms: str = "to_zero"  # how what lies below those is cut
    result: str = "to_zero"  # how a sum becomes a float
    c_with_products: bool = True  # or added to the float that the products gave
    normalised_products: bool = False  # a product's exponent: its own, or the sum of its factors'
    zeros_have_exponents: bool = False
    least_exponent: int = -1000  # where all exponents are less, this is taken for the largest
    least_factor_exponent: int = -126  # of a factor: that of its type's subnormal numbers

    def __str__(self) -> str:
        words = [f"{self.products} products at a time", f"{self.fraction_bits} bits of fraction"]
        words += [f"terms rounded {self.terms}", f"result {self.result}"]
        words.append("C with the products" if self.c_with_products else "C afterwards")
        words += ["products normalised"] * self.normalised_products
        words += ["zeros have exponents"] * self.zeros_have_exponents
        words += [f"exponents from {self.least_exponent} on"] * (self.least_exponent > -1000)
        words += [f"factors' from {self.least_factor_exponent} on"] * (self.least_factor_exponent > -126)
        return ", ".join(words).replace("_", " ")


def all_models(k: int, fp16: bool = False) -> Iterator[Model]:
    """Of FP16 with two exponents of its subnormal numbers: that of the smallest normal one, and their own."""
    steps = [n for n in (16, 8, 4, 2) if n <= k]
    yes_no = (False, True)
    for fields in product(
        steps, range(23, 31), ROUNDINGS, ROUNDINGS[::2], (True, False), yes_no, yes_no, LEAST
    ):
        yield Model(*fields)
        if fp16:
            yield Model(*fields, least_factor_exponent=-14)


def from_json(row: dict[str, Any]) -> Model:
    return Model(**{name: row[name] for name in asdict(Model(1, 1)) if name in row})


def results(models: Sequence[Model], a: Bits, b: Bits, c: Bits) -> Bits:
    """The bits of D, by model and element: a [n][K], b [n][K], c [n]. The models may differ in their fraction
    bits alone: they are computed at once, as numpy takes hardly longer for all than for one."""
    model = models[0]
    fraction_bits = np.array([m.fraction_bits for m in models])[:, None]
    d = np.broadcast_to(c.view(np.float32), (len(models), len(c)))
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(0, a.shape[1], model.products):
            terms = multiply(model, a[:, k : k + model.products], b[:, k : k + model.products])
            if model.c_with_products:
                new = add_up(model, fraction_bits, *with_c(d, *terms))
            else:
                new = add(add_up(model, fraction_bits, *terms), d, model.result)
            d = np.where(np.isfinite(d), new, d)
    return np.where(
        is_finite(a).all(1) & is_finite(b).all(1) & is_finite(c), d.view(np.uint32), specials(a, b, c)
    )


def is_finite(bits: Bits) -> np.ndarray:
    return (bits >> 23 & 255) != 255


def unpack(bits: Bits) -> tuple[Ints, Ints]:
    """Of finite numbers: the significand as an integer of 24 bits, with its sign, and the exponent."""
    biased = (bits >> 23 & 255).astype(np.int64)
    magnitude = (bits & 0x7FFFFF).astype(np.int64) + np.where(biased > 0, 1 << 23, 0)
    return np.where(bits >> 31 != 0, -magnitude, magnitude), np.maximum(biased, 1) - 127


def leading(value: Ints) -> Ints:
    """The place of the leading bit; exact below 2^53."""
    return np.frexp(np.abs(value).astype(np.float64))[1].astype(np.int64) - 1


def scaled(value: Ints, shift: Ints, rounding: str) -> Ints:
    """value * 2^shift, to an integer."""
    up, down = np.maximum(shift, 0), np.minimum(np.maximum(-shift, 0), 62)
    if rounding == "down":
        return (value << up) >> down
    magnitude = np.abs(value) << up
    whole = magnitude >> down
    if rounding == "to_nearest":
        twice_rest = (magnitude - (whole << down)) << 1
        one = np.int64(1) << down
        whole = whole + ((twice_rest > one) | ((twice_rest == one) & (down > 0) & (whole & 1 == 1)))
    return np.sign(value) * whole


Terms = tuple[Ints, Ints, Ints]  # significands, exponents and places of fraction; the last axis is added up


def multiply(model: Model, a: Bits, b: Bits) -> Terms:
    (x, x_exponent), (y, y_exponent) = unpack(a), unpack(b)
    # Exact: what has a smaller exponent has so many bits less.
    raised_x, raised_y = (np.maximum(e, model.least_factor_exponent) for e in (x_exponent, y_exponent))
    significands = (x >> 13 >> raised_x - x_exponent) * (y >> 13 >> raised_y - y_exponent)
    exponents = raised_x + raised_y
    places = np.full_like(significands, 20)  # of fraction
    if model.normalised_products:
        more = np.where(significands != 0, leading(significands) - 20, 0)
        exponents, places = exponents + more, places + more
    return significands, exponents, places


def with_c(c: np.ndarray, *terms: Ints) -> Terms:
    """The terms of a step, and C behind them."""
    old, old_exponent = unpack(np.ascontiguousarray(c).view(np.uint32)[..., None])
    behind = old, old_exponent, np.full_like(old, 23)
    shape = *c.shape, terms[0].shape[-1]
    return tuple(
        np.concatenate([np.broadcast_to(of, shape), last], axis=-1)
        for of, last in zip(terms, behind, strict=True)
    )


def add_up(model: Model, fraction_bits: Ints, *terms: Ints) -> np.ndarray:
    """One step."""
    significands, exponents, places = terms
    not_zero = significands != 0
    counted = exponents if model.zeros_have_exponents else np.where(not_zero, exponents, model.least_exponent)
    largest = np.maximum(counted.max(-1), model.least_exponent)
    exponent = largest - fraction_bits
    shift = exponents - exponent[..., None] - places
    total = scaled(significands, np.where(not_zero, shift, 0), model.terms).sum(-1)
    last = np.maximum(exponent + leading(total) - 23, -149)
    rounded = scaled(total, np.where(total != 0, exponent - last, 0), model.result)
    return np.ldexp(rounded.astype(np.float64), np.where(total != 0, last, 0)).astype(np.float32)


def add(x: np.ndarray, y: np.ndarray, rounding: str) -> np.ndarray:
    """The sum of two floats, rounded once. A double and what it leaves have all of it."""
    if rounding == "to_nearest":
        return x + y
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    total = wide_x + wide_y
    of_y = total - wide_x
    rest = (wide_x - (total - of_y)) + (wide_y - of_y)
    result = total.astype(np.float32)
    error = (total - result) + rest
    toward = np.where((rounding == "down") | (result > 0), -np.inf, np.inf).astype(np.float32)
    too_far = np.where(toward < 0, error < 0, error > 0)
    return np.where(too_far, np.nextafter(result, toward), result)


def specials(a: Bits, b: Bits, c: Bits) -> Bits:
    """Where an operand is infinite or no number."""
    kind_a, kind_b, kind_c = (bits & 0x7FFFFFFF for bits in (a, b, c))
    infinite_a, infinite_b = kind_a == 0x7F800000, kind_b == 0x7F800000
    nan = ((kind_a > 0x7F800000) | (kind_b > 0x7F800000)).any(1) | (kind_c > 0x7F800000)
    nan |= ((infinite_a & (kind_b == 0)) | (infinite_b & (kind_a == 0))).any(1)
    negative = ((a ^ b) >> 31).astype(bool)
    minus = ((infinite_a | infinite_b) & negative).any(1) | (c == 0xFF800000)
    plus = ((infinite_a | infinite_b) & ~negative).any(1) | (c == 0x7F800000)
    infinity = np.where(minus, np.uint32(0xFF800000), np.uint32(0x7F800000))
    return np.where(nan | (plus & minus), NAN, infinity)
