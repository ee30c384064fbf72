"""Rows of tiles times vectors: compiled loops at every level, and NumPy tile by tile, against plain products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kpca.gram._evaluators import evaluator
from kpca.gram._strips import Strips
from kpca.gram.tiles import slices
from kpca.kernels import RBF, Cosine, Kernel, Matern, Polynomial, profiles

try:
    from kpca.kernels import _simd as simd
except ImportError:
    simd = None
LEVELS = () if simd is None else simd.levels()
PRODUCTS = [level for level in LEVELS if simd.shape(level)[0]]  # levels that have products, too
KERNELS = [RBF(0.2), Matern(nu=1.5, length_scale=2.0), Polynomial(3, 0.1, 1.0), Cosine()]
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-12}
compiled = pytest.mark.skipif(not PRODUCTS, reason="there are no compiled products for this CPU or compiler")


@pytest.fixture(params=["numpy", *LEVELS])
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    found = (None, "", "") if request.param == "numpy" else (simd, request.param, "")
    monkeypatch.setattr(profiles, "_loops", lambda: found)
    return str(request.param)


def fused(level: str, dtype: np.dtype[Any]) -> profiles.Fused:
    """Return a loop that leaves numbers as they are, and multiplies them."""
    vector, rows = simd.shape(level)
    return profiles.Fused(simd, level, ("itself",), vector // dtype.itemsize, rows)


def values(kernel: Kernel, X: Any, dtype: Any) -> tuple[Any, Any]:
    """Return what fills tiles, and all kernel values in float64."""
    K = kernel.block(X, X)
    np.fill_diagonal(K, kernel.diagonal(X))
    return evaluator(kernel, X, X, np.dtype(dtype)), K


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize(("rows", "columns", "width", "b"), [(64, 192, 64, 24), (37, 100, 37, 8), (5, 33, 11, 3)])
@pytest.mark.parametrize("diagonal", [True, False])
@pytest.mark.parametrize("moments", [True, False])
def test_a_strip_is_a_product_from_both_sides(
    level: str, dtype: Any, kernel: Kernel, rows: int, columns: int, width: int, b: int, diagonal: bool, moments: bool
) -> None:
    rng = np.random.default_rng(rows)
    n = 300
    X, V, w = rng.standard_normal((n, 6)), rng.standard_normal((n, b)), rng.random(n)
    fill, K = values(kernel, X, dtype)
    strips = Strips(fill, V, np.dtype(dtype), width=width, threads=1, symmetric=True, weights=w if moments else None)
    here, start = slice(100, 100 + rows), 100 if diagonal else 7
    there = slice(start, start + columns)
    exact = K.diagonal()[here].copy() if diagonal and width == rows else None
    T = K[here, there].copy()
    beside = T.copy()  # what is multiplied from the other side: not a tile on the diagonal
    if exact is not None:
        beside[:, :width] = 0.0
    kept = np.empty(rows * columns, dtype)
    found = strips.times(here, there, diagonal=exact)
    strips.fill(here, there, kept, diagonal=exact)
    again = strips.times(here, there, kept, diagonal=exact)
    tolerance = TOLERANCE[dtype] * np.abs(K).max() * columns
    np.testing.assert_allclose(found.left[:, :b], T @ V[there], atol=tolerance)
    np.testing.assert_allclose(found.right[:b], V[here].T @ beside, atol=tolerance)
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one, other)
    for cut in slices(columns, width):
        tile = kept[rows * cut.start : rows * cut.stop].reshape(rows, -1)
        np.testing.assert_allclose(tile, T[:, cut], atol=TOLERANCE[dtype] * np.abs(K).max())
    if moments:
        np.testing.assert_allclose(found.left[:, b], T @ w[there], atol=tolerance)
        np.testing.assert_allclose(found.right[-1], w[here] @ beside, atol=tolerance)
        squares = w[here] @ (T**2 + beside**2) @ w[there]
        assert found.squares == pytest.approx(squares, rel=1e-4 if dtype == np.float32 else 1e-12)
        plain = Strips(fill, V, np.dtype(dtype), width=width, threads=1, symmetric=True)
        np.testing.assert_array_equal(plain.times(here, there, diagonal=exact).left, found.left[:, :b])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_memory_that_was_given_back_is_used_again(level: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    X, V = rng.standard_normal((90, 3)), rng.standard_normal((90, 7))
    fill, K = values(RBF(0.5), X, dtype)
    strips = Strips(fill, V, np.dtype(dtype), width=30, threads=1, symmetric=True)
    for here in (slice(0, 30), slice(30, 60), slice(60, 77)):
        found = strips.times(here, slice(60, 90))
        np.testing.assert_allclose(found.left, K[here, 60:] @ V[60:], atol=1e-4)
        found.left[...] = np.nan  # nothing of it may be left when it is used again
        found.right[...] = np.nan
        strips.take_back(found)


@compiled
@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(PRODUCTS or ["none"]),
    st.integers(1, 110),
    st.integers(1, 70),
    st.integers(0, 70),
    st.integers(1, 80),
    st.sampled_from(list(TOLERANCE)),
    st.booleans(),
)
def test_products_of_any_shape(
    level: str, rows: int, columns: int, b: int, width: int, dtype: Any, radial: bool
) -> None:
    rng = np.random.default_rng(rows + 100 * columns)
    loop = fused(level, np.dtype(dtype))
    L, R = rng.standard_normal((rows, 4)).astype(dtype), rng.standard_normal((columns, 4)).astype(dtype)
    if radial:
        L[:, 3] = R[:, 2] = 1.0
    V, W = np.zeros((columns, -(-b // loop.lanes) * loop.lanes), dtype), np.zeros((-(-b // 8) * 8, rows), dtype)
    V[:, :b], W[:b] = rng.standard_normal((columns, b)), rng.standard_normal((b, rows))
    left, right = np.full((rows, b), np.nan), np.full((len(W), columns), np.nan, dtype)
    tiles, T = np.full(rows * columns, np.nan, dtype), L.astype(np.float64) @ R.T.astype(np.float64)
    scratch = np.full(loop.scratch(min(width, columns), 4, V.shape[1]), np.nan, dtype)
    for filled in (-1, 0, 1):
        matrices = L, R, scratch, None if filled < 0 else tiles, None, V, W, left, right, None, None
        loop(*matrices, bounded=False, radial=radial, width=width, filled=filled)
        np.testing.assert_allclose(left, T @ V[:, :b], atol=TOLERANCE[dtype] * columns)
        np.testing.assert_allclose(right, W.astype(np.float64) @ T, atol=TOLERANCE[dtype] * rows)
    loop(*matrices, bounded=True, radial=radial, width=width, filled=0)
    np.testing.assert_allclose(left, np.minimum(T, 0.0) @ V[:, :b], atol=TOLERANCE[dtype] * columns)


@compiled
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("place", [0, 17, 59])
def test_what_is_not_a_number_stays_in_its_row(level: str, dtype: Any, place: int) -> None:
    Y, V = np.random.default_rng(0).standard_normal((200, 3)), np.ones((200, 9))
    X = Y[:100].copy()
    X[place, 1] = np.nan
    strips = Strips(evaluator(RBF(0.5), X, Y, np.dtype(dtype)), V, np.dtype(dtype), width=50, threads=1)
    left = strips.times(slice(0, 60), slice(60, 160)).left
    assert np.array_equal(np.flatnonzero(np.isnan(left).any(axis=1)), [place])


@compiled
def test_levels_with_products_give_the_same_bits() -> None:
    rng = np.random.default_rng(1)
    for dtype in TOLERANCE:
        L, R = rng.standard_normal((61, 7)).astype(dtype), rng.standard_normal((83, 7)).astype(dtype)
        V, W = rng.standard_normal((83, 32)).astype(dtype), rng.standard_normal((24, 61)).astype(dtype)
        found = []
        for level in PRODUCTS:
            loop, left, right = fused(level, np.dtype(dtype)), np.empty((61, 20)), np.empty((24, 83), dtype)
            scratch = np.empty(loop.scratch(40, 7, 32), dtype)
            matrices = L, R, scratch, None, None, V, W, left, right, None, None
            loop(*matrices, bounded=False, radial=False, width=40, filled=-1)
            found.append((left.tobytes(), right.tobytes()))
        assert len(set(found)) == 1


@compiled
def test_what_does_not_fit_is_refused() -> None:
    places = ["L", "R", "scratch", "tiles", "diagonal", "V", "W", "left", "right", "w", "u"]
    L, R, V, left = np.ones((4, 2)), np.ones((6, 2)), np.ones((6, 8)), np.ones((4, 3))
    tiles, W, right, scratch = np.ones(24), np.ones((8, 4)), np.ones((8, 6)), np.ones(10_000)
    whole = [L, R, scratch, tiles, None, V, W, left, right, None, None]

    def call(
        *, level: str = PRODUCTS[0], name: str = "itself", parameters: Any = (), width: int = 6, filled: int = 0,
        radial: bool = False, **changed: Any,
    ) -> None:  # fmt: skip
        matrices = [changed.get(place, matrix) for place, matrix in zip(places, whole, strict=True)]
        simd.multiply(level, name, parameters, False, radial, width, filled, *matrices)

    call()
    wrong: list[dict[str, Any]] = [
        {"L": np.ones((4, 3))}, {"R": np.ones((5, 2))}, {"tiles": np.ones(23)}, {"V": np.ones((5, 8))},
        {"V": np.ones((6, 7))}, {"left": np.ones((3, 3))}, {"left": np.ones((4, 9))}, {"left": np.ones((4, 6))[:, ::2]},
        {"right": np.ones((7, 6))}, {"right": np.ones((8, 5))}, {"W": np.ones((8, 5))}, {"W": np.ones((7, 4))},
        {"W": None}, {"L": None}, {"width": 0}, {"diagonal": np.ones(4)}, {"u": np.ones(6)},
        {"u": np.ones(6), "w": np.ones(3)}, {"V": np.ones((6, 16))[:, :8]}, {"R": np.ones((6, 2), np.float32)},
        {"L": np.ones((4, 2), int)}, {"left": np.ones((4, 3), np.float32)}, {"scratch": np.ones(10)},
        {"scratch": None}, {"tiles": None}, {"left": np.ones((4, 8))[:, :3]}, {"radial": True},
    ]  # fmt: skip
    for changed in wrong:
        with pytest.raises(ValueError, match=r"do not fit|one precision"):
            call(**changed)
    with pytest.raises(ValueError, match="no profile sine"):
        call(name="sine")
    with pytest.raises(TypeError, match="takes 1 parameters"):
        call(name="tanh")
    with pytest.raises(TypeError, match="must be real number"):
        call(name="tanh", parameters=("x",))
    with pytest.raises(ValueError, match="no level v9"):
        call(level="v9")
    for level in set(LEVELS) - set(PRODUCTS):
        with pytest.raises(ValueError, match=f"no products for level {level}"):
            call(level=level)
    with pytest.raises(ValueError, match="read-only"):
        frozen = np.ones((4, 3))
        frozen.flags.writeable = False
        call(left=frozen)
    with pytest.raises(ValueError, match="the shape of the total"):
        simd.add(LEVELS[0], np.ones((2, 3)), np.ones((3, 2)))
    with pytest.raises(ValueError, match="must fit each other"):
        simd.centre(LEVELS[0], np.ones((2, 3)), np.ones(3), np.ones(2), np.ones((2, 5)), False)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.booleans(), st.sampled_from([np.float32, np.float64]), st.booleans())
def test_rows_are_centred_as_numpy_does(n: int, d: int, column: bool, dtype: Any, wide: bool) -> None:
    rng = np.random.default_rng(n + 50 * d)
    X = rng.standard_normal((n, d + 3)).astype(np.float64 if wide else np.float32)[:, 1 : d + 1]
    origin, factors, out = rng.standard_normal(d), rng.random(d), np.empty((n, d + 2), dtype)
    largest = profiles.centred(X, origin, factors, out, column=column)
    if largest is None:
        assert profiles.in_use().startswith("NumPy")
        return
    Y = ((X - origin) * factors).astype(dtype)
    half = 0.5 * np.square(Y.astype(np.float64)).sum(axis=1)
    np.testing.assert_array_equal(out[:, :d], Y)
    np.testing.assert_allclose(out[:, d + column], -half, rtol=1e-6 if dtype == np.float32 else 1e-13)
    assert (out[:, d + 1 - column] == 1).all()
    assert largest == pytest.approx(half.max(), rel=1e-13)
    X = X.copy()
    X[-1, 0] = np.nan
    assert np.isnan(profiles.centred(X, origin, factors, out, column=column) or 0.0)
