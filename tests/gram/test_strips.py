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
KERNELS = [RBF(0.2), Matern(nu=1.5, length_scale=2.0), Polynomial(3, 0.1, 1.0), Cosine()]
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-12}
compiled = pytest.mark.skipif(simd is None, reason="the compiled loops were not built here")


@pytest.fixture(params=["numpy", *LEVELS])
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    found = (None, "", "") if request.param == "numpy" else (simd, request.param, "")
    monkeypatch.setattr(profiles, "_loops", lambda: found)
    return str(request.param)


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
    scratch, kept = np.empty(rows * width, dtype), np.empty(rows * columns, dtype)
    found = strips.times(here, there, scratch, diagonal=exact)
    strips.fill(here, there, kept, diagonal=exact)
    again = strips.times(here, there, kept, filled=True, diagonal=exact)
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
        np.testing.assert_array_equal(plain.times(here, there, scratch, diagonal=exact).left, found.left[:, :b])


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_memory_that_was_given_back_is_used_again(level: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    X, V = rng.standard_normal((90, 3)), rng.standard_normal((90, 7))
    fill, K = values(RBF(0.5), X, dtype)
    strips = Strips(fill, V, np.dtype(dtype), width=30, threads=1, symmetric=True)
    scratch = np.full(900, np.nan, dtype)
    for here in (slice(0, 30), slice(30, 60), slice(60, 77)):
        found = strips.times(here, slice(60, 90), scratch)
        np.testing.assert_allclose(found.left, K[here, 60:] @ V[60:], atol=1e-4)
        found.left[...] = np.nan  # nothing of it may be left when it is used again
        found.right[...] = np.nan
        strips.take_back(found)


@compiled
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(LEVELS or ["none"]),
    st.integers(1, 70),
    st.integers(1, 70),
    st.integers(1, 40),
    st.integers(1, 80),
    st.sampled_from(list(TOLERANCE)),
)
def test_products_of_any_shape(level: str, rows: int, columns: int, b: int, width: int, dtype: Any) -> None:
    rng = np.random.default_rng(rows + 100 * columns)
    L, R = rng.standard_normal((rows, 4)).astype(dtype), rng.standard_normal((columns, 4)).astype(dtype)
    for inner, across in ((b, b), (-(-b // 16) * 16, -(-b // 8) * 8)):  # by BLAS, and by products of its own
        V, W = np.zeros((columns, inner), dtype), np.zeros((across, rows), dtype)
        V[:, :b], W[:b] = rng.standard_normal((columns, b)), rng.standard_normal((b, rows))
        left, right = np.full((rows, b), np.nan), np.full((across, columns), np.nan, dtype)
        tiles, T = np.empty(rows * columns, dtype), L.astype(np.float64) @ R.T.astype(np.float64)
        assert profiles._with_blas()
        for filled in (-1, 0, 1):
            matrices = L, R, tiles, None, V, W, left, right, None, None
            simd.multiply(level, "itself", (), False, width, filled, *matrices)
            np.testing.assert_allclose(left, T @ V[:, :b], atol=TOLERANCE[dtype] * columns)
            np.testing.assert_allclose(right, W.astype(np.float64) @ T, atol=TOLERANCE[dtype] * rows)


@compiled
@pytest.mark.skipif(profiles.in_use().startswith("NumPy"), reason="the environment has switched them off")
def test_what_does_not_fit_is_refused() -> None:
    assert profiles._with_blas()
    L, R, V, left = np.ones((4, 2)), np.ones((6, 2)), np.ones((6, 3)), np.ones((4, 3))
    tiles, W, right = np.ones(24), np.ones((3, 4)), np.ones((3, 6))
    whole = [L, R, tiles, None, V, W, left, right, None, None]

    def call(*, name: str = "itself", parameters: tuple[float, ...] = (), width: int = 6, **changed: Any) -> None:
        places = ["L", "R", "tiles", "diagonal", "V", "W", "left", "right", "w", "u"]
        matrices = [changed.get(place, matrix) for place, matrix in zip(places, whole, strict=True)]
        simd.multiply(LEVELS[0], name, parameters, False, width, -1, *matrices)

    call()
    wrong: list[dict[str, Any]] = [
        {"L": np.ones((4, 3))}, {"R": np.ones((5, 2))}, {"tiles": np.ones(23)}, {"V": np.ones((5, 3))},
        {"left": np.ones((3, 3))}, {"left": np.ones((4, 7))}, {"left": np.ones((4, 6))[:, ::2][:, :3].copy()[:3]},
        {"right": np.ones((2, 6))}, {"right": np.ones((3, 5))}, {"W": np.ones((3, 5))}, {"W": None}, {"L": None},
        {"width": 0}, {"diagonal": np.ones(4)}, {"u": np.ones(6)}, {"u": np.ones(6), "w": np.ones(3)},
        {"V": np.ones((6, 6))[:, ::2]}, {"R": np.ones((6, 2), np.float32)}, {"L": np.ones((4, 2), int)},
        {"left": np.ones((4, 3), np.float32)},
    ]  # fmt: skip
    for changed in wrong:
        with pytest.raises(ValueError, match=r"do not fit|one precision"):
            call(**changed)
    with pytest.raises(ValueError, match="no profile sine"):
        call(name="sine")
    with pytest.raises(TypeError, match="takes 1 parameters"):
        call(name="tanh")
    with pytest.raises(TypeError, match="must be real number"):
        call(name="tanh", parameters=("x",))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="read-only"):
        frozen = np.ones((4, 3))
        frozen.flags.writeable = False
        call(left=frozen)
    with pytest.raises(ValueError, match="the shape of the total"):
        simd.add(LEVELS[0], np.ones((2, 3)), np.ones((3, 2)))
    with pytest.raises(ValueError, match="must fit each other"):
        simd.centre(LEVELS[0], np.ones((2, 3)), np.ones(3), np.ones(2), np.ones((2, 5)), False)
    assert simd.use_blas(*[profiles.cython_blas.__pyx_capi__["ddot"]] * 4) is False  # another signature
    with pytest.raises((TypeError, ValueError), match="apsule"):
        simd.use_blas(1, 2, 3, 4)


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
