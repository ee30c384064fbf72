"""Pre-images by fixed point: against the iteration written out for one row, and the promises made about the result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from kpca import InputError, KernelPCA, Nystroem
from kpca.kernels import RBF, Exponential, Kernel, Linear, Matern, Polynomial, RationalQuadratic
from kpca.preimage import FixedPoint
from kpca.preimage.fixed_point import NOTHING_LEFT, OUT_OF_REACH


def _root(s: Any) -> Any:
    return np.sqrt(s.astype(complex))


# A kernel, its profile f(s) of rows in its own units, and what a feature is multiplied by to be in these units.
KERNELS: dict[str, tuple[Kernel, Any, Any]] = {
    "rbf": (RBF(0.3), lambda s: np.exp(-s), 0.3**0.5),
    "rbf each": (RBF((0.3, 0.1, 0.6)), lambda s: np.exp(-s), np.sqrt([0.3, 0.1, 0.6])),
    "exponential": (Exponential(2.0), lambda s: np.exp(-_root(s)), 0.5),
    "matern 1/2": (Matern(0.5, 1.5), lambda s: np.exp(-_root(s)), 1 / 1.5),
    "matern 3/2": (Matern(1.5, 2.0), lambda s: (1 + _root(s)) * np.exp(-_root(s)), 3**0.5 / 2),
    "matern 5/2": (
        Matern(2.5, (2.0, 3.0, 1.5)),
        lambda s: (1 + _root(s) + s / 3) * np.exp(-_root(s)),
        np.sqrt(5) / np.array([2.0, 3.0, 1.5]),
    ),
    "rational quadratic": (RationalQuadratic(0.7, 1.5), lambda s: (1 + s) ** -0.7, 1 / (1.4**0.5 * 1.5)),
    "scaled": (4.0 * RBF(0.3), lambda s: 4.0 * np.exp(-s), 0.3**0.5),
}
ROUGH = ("exponential", "matern 1/2")  # f' is infinite at 0: every base row is a kink, and may be the summit
SLACK = {name: 1e-6 if name in ROUGH else 1e-9 for name in KERNELS}  # of heights; beside a kink steps end early
every = pytest.mark.parametrize("name", KERNELS)


def rows(n: int = 50, seed: int = 0) -> np.ndarray:
    """A bent sheet in three dimensions."""
    rng = np.random.default_rng(seed)
    u, v = rng.uniform(-1.5, 1.5, (2, n))
    return np.column_stack([u, v, u**2 - v]) + 0.05 * rng.standard_normal((n, 3))


def noisy(m: int = 6, seed: int = 1) -> np.ndarray:
    return rows(m, seed) + 0.2 * np.random.default_rng(seed).standard_normal((m, 3))


class Slow:
    """The same model by the reference, in units of the kernel."""

    def __init__(self, name: str, X: Any, k: int, weights: Any = None, center: bool = True) -> None:
        self.kernel, self.profile, self.scale = KERNELS[name]
        self.X, self.usual = np.asarray(X, dtype=np.float64), 1.0
        self.factor = float(np.real(self.profile(np.zeros(1))[0]))
        self.K = self.kernel.block(self.X, self.X)
        self.A, self.c, self.offset = reference.combination(self.K, k, weights, center)

    def scores(self, Z: Any) -> np.ndarray:
        return self.kernel.block(np.asarray(Z, dtype=np.float64), self.X) @ self.A - self.offset

    def like(self, fast: KernelPCA) -> Slow:
        """The same with the gain that is usual for the rows of a fitted model."""
        self.usual = fast._back.way.usual
        return self

    def limits(self, t: Any, x: Any) -> dict[str, float]:
        """What gains are measured by, and the largest that is allowed for this row."""
        k_x, g, u = self.kernel.block(x[None], self.X)[0], self.c + self.A @ t, t + self.offset
        own = self.kernel.diagonal(x[None])[0]
        left = max(own - 2 * g @ k_x + g @ self.K @ g, 0.0)
        return {"usual": self.usual, "most": float(np.sqrt(1 + left / (u @ u)))}

    def height(self, z: Any, t: Any, *, rescale: bool, penalty: float = 0.0, x: Any = None) -> float:
        k_z = self.kernel.block(np.asarray(z, dtype=np.float64)[None], self.X)[0]
        x = np.asarray(z if x is None else x, dtype=np.float64)
        pull = penalty * self.factor * np.square((z - x) * self.scale).sum()  # of a multiple of a kernel, as much
        limits = self.limits(t, x) if rescale else {}
        return reference.height(k_z, self.A, self.c, self.offset, t, rescale=rescale, **limits) - pull

    def gain(self, z: Any, t: Any, x: Any) -> float:
        k_z = self.kernel.block(np.asarray(z, dtype=np.float64)[None], self.X)[0]
        return reference.gain(k_z, self.A, t + self.offset, **self.limits(t, x))

    def nearest(self, t: Any) -> np.ndarray:
        """The base row whose image is nearest to P phi."""
        g = self.c + self.A @ t
        return self.X[np.argmin(np.diag(self.K) - 2 * self.K @ g)]

    def found(self, t: Any, start: Any, **how: Any) -> np.ndarray:
        base = self.X * self.scale
        parts = (self.A, self.c, self.offset, t)
        if how.get("rescale"):
            how |= self.limits(t, start)
        how["penalty"] = how.get("penalty", 0.0) * self.factor
        return reference.fixed_point(self.profile, base, *parts, start * self.scale, **how) / self.scale


def model(name: str, X: Any, k: int | None = 6, *, weights: Any = None, **how: Any) -> KernelPCA:
    options = {key: how.pop(key) for key in ("center", "approximation", "n_jobs") if key in how}
    return KernelPCA(k, kernel=KERNELS[name][0], preimage=FixedPoint(**how), **options).fit(X, sample_weight=weights)


# ---- the right answers


@every
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("center", [True, False])
def test_restored_rows_are_those_of_the_slow_iteration(name: str, weighted: bool, center: bool) -> None:
    X, Z = rows(), noisy()
    weights = np.random.default_rng(2).uniform(0.5, 2.0, len(X)) if weighted else None
    slow, fast = Slow(name, X, 6, weights, center), model(name, X, weights=weights, center=center, tol=1e-8)
    found = fast.inverse_transform(fast.transform(Z))
    T = slow.scores(Z)
    for z, t in zip(found, T, strict=True):
        truth = slow.found(t, slow.nearest(t) + (1e-3 if name in ROUGH else 0.0))
        assert slow.height(z, t, rescale=False) >= slow.height(truth, t, rescale=False) - SLACK[name]
        if name not in ROUGH:
            assert_allclose(z, truth, atol=1e-5)


@every
@pytest.mark.parametrize("rescale", [True, False])
@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_denoised_rows_are_those_of_the_slow_iteration(name: str, rescale: bool, penalty: float) -> None:
    X, Z = rows(), noisy()
    fast = model(name, X, rescale=rescale, penalty=penalty, tol=1e-8)
    slow = Slow(name, X, 6).like(fast)
    for x, z, t in zip(Z, fast.denoise(Z), slow.scores(Z), strict=True):
        truth = slow.found(t, x, rescale=rescale, penalty=penalty)
        heights = [slow.height(row, t, rescale=rescale, penalty=penalty, x=x) for row in (z, truth)]
        assert heights[0] >= heights[1] - SLACK[name]
        if name not in ROUGH:
            assert_allclose(z, truth, atol=1e-5)


@every
def test_gains_are_least_squares_at_the_row_found_and_never_below_1(name: str) -> None:
    X = rows()
    Z = np.vstack([noisy(20), X[:5], rows(5, seed=7) * 2])
    fast = model(name, X, 4, tol=1e-8)
    slow = Slow(name, X, 4).like(fast)
    found = fast.denoise(Z)
    gains = fast.preimage_report_.gains
    truth = [slow.gain(z, t, x) for x, z, t in zip(Z, found, slow.scores(Z), strict=True)]
    assert_allclose(gains, truth, rtol=1e-5)
    assert (gains >= 1).all() and (gains > 1.05).any()
    fast.inverse_transform(fast.transform(Z))
    assert_array_equal(fast.preimage_report_.gains, 1)


def test_landmarks_are_a_model_like_any_other() -> None:
    """With all rows as landmarks the model is exact, and so are its pre-images."""
    X, Z = rows(30), noisy()
    exact, landmarks = (
        model("matern 3/2", X, 5, approximation=how, tol=1e-8) for how in (None, Nystroem(30, landmarks=np.arange(30)))
    )
    assert_allclose(landmarks.denoise(Z), exact.denoise(Z), atol=1e-5)


# ---- promises


@settings(max_examples=40)
@given(
    name=st.sampled_from(list(KERNELS)),
    seed=st.integers(0, 10**6),
    k=st.integers(1, 12),
    noise=st.sampled_from([0.0, 0.1, 1.0, 5.0]),
    penalty=st.sampled_from([0.0, 0.01, 1.0]),
    rescale=st.booleans(),
    box=st.sampled_from([None, (-1.0, 1.0), ([-9, -0.5, 0], [9, 0.5, 9])]),
    steps=st.sampled_from([1, 3, 100]),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_no_row_is_worse_than_its_start(name, seed, k, noise, penalty, rescale, box, steps, dtype) -> None:
    X = rows(30, seed).astype(dtype)
    Z = (rows(6, seed + 1) + noise * np.random.default_rng(seed).standard_normal((6, 3))).astype(dtype)
    fast = model(name, X, k, penalty=penalty, rescale=rescale, box=box, max_iter=steps, tol=1e-8)
    slow = Slow(name, X, k).like(fast)
    T = slow.scores(Z)
    slack = 1e-10 if dtype == np.float64 else 5e-5
    started = Z if box is None else np.clip(Z, *box)
    denoised = fast.denoise(Z)
    lost = np.zeros(len(Z), bool)
    for which in fast.preimage_report_.fallbacks.values():
        lost |= which
    assert (fast.preimage_report_.iterations <= 2 * steps).all()  # float32 first, then float64
    for z, x, start, t in zip(denoised[~lost], Z[~lost], started[~lost], T[~lost], strict=True):
        after, before = (slow.height(row, t, rescale=rescale, penalty=penalty, x=x) for row in (z, start))
        assert after >= before - slack * max(1.0, abs(before))
    for z, t in zip(fast.inverse_transform(fast.transform(Z)), T, strict=True):
        start = slow.nearest(t) if box is None else np.clip(slow.nearest(t), *box)
        after, before = slow.height(z, t, rescale=False), slow.height(start, t, rescale=False)
        assert after >= before - slack * max(1.0, abs(before))


@every
def test_the_summit_is_level(name: str) -> None:
    """Half a step to either side along each feature is no higher, for rows that are said to have converged."""
    X, Z = rows(), noisy(10)
    fast = model(name, X, tol=1e-8)
    slow = Slow(name, X, 6).like(fast)
    found = fast.denoise(Z)
    assert fast.preimage_report_.converged.all()
    for x, z, t in zip(Z, found, slow.scores(Z), strict=True):
        top = slow.height(z, t, rescale=True, x=x)
        for step in 1e-3 * np.vstack([np.eye(3), -np.eye(3)]):
            assert slow.height(z + step, t, rescale=True, x=x) <= top + 1e-12


def test_more_starts_are_never_worse_and_sometimes_better() -> None:
    rng = np.random.default_rng(3)
    X = np.vstack([rng.normal(size=(20, 2)) * 0.3 + centre for centre in ((0, 0), (2, 0), (0, 2))])
    Z = rng.uniform(-2, 4, (60, 2))
    kernel = RBF(1.5)
    K = kernel.block(X, X)
    A, c, offset = reference.combination(K, 4)
    T = kernel.block(Z, X) @ A - offset

    def heights(starts: int) -> np.ndarray:
        fast = KernelPCA(4, kernel=kernel, preimage=FixedPoint(starts=starts, rescale=False, tol=1e-7)).fit(X)
        return np.array(
            [
                reference.height(kernel.block(z[None], X)[0], A, c, offset, t)
                for z, t in zip(fast.denoise(Z), T, strict=True)
            ]
        )

    one, three, many = heights(1), heights(3), heights(100)  # 100: more than there are rows
    assert (three >= one - 1e-9).all() and (many >= three - 1e-9).all()
    assert (three > one + 1e-3).any()


def test_max_iter_ends_the_search_and_says_so() -> None:
    X, Z = rows(), noisy(10)
    fast = model("exponential", X, max_iter=2, tol=1e-8)
    fast.denoise(Z)
    report = fast.preimage_report_
    assert report.iterations.max() <= 4 and not report.converged.all()
    assert f"{(~report.converged).sum()} did not converge: raise max_iter" in str(report)
    patient = model("exponential", X, max_iter=500)
    patient.denoise(Z)
    assert patient.preimage_report_.converged.all()
    assert "did not converge" not in str(patient.preimage_report_)


@every
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_penalty_from_nothing_to_everything(name: str, dtype: Any) -> None:
    X, Z = rows().astype(dtype), noisy().astype(dtype)
    free = model(name, X).denoise(Z)
    assert_array_equal(model(name, X, penalty=0.0).denoise(Z), free)
    assert_allclose(model(name, X, penalty=1e-9).denoise(Z), free, atol=1e-4)
    gaps = [np.linalg.norm(model(name, X, penalty=p).denoise(Z) - Z) for p in (0.0, 0.1, 1.0, 10.0, 1e8)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 0.1 and gaps[-1] < 1e-4
    far = model(name, X, penalty=1e300)
    assert_allclose(far.denoise(Z), Z, atol=1e-5)
    scores = far.transform(Z)  # without inputs there is nothing to pull to
    assert_array_equal(far.inverse_transform(scores), model(name, X).inverse_transform(scores))


@every
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_results_are_in_the_box(name: str, dtype: Any) -> None:
    X, Z = rows().astype(dtype), noisy(10).astype(dtype)
    low, high = np.array([-0.4, 0.1, -np.inf]), np.array([0.4, 0.1, 0.3])
    boxed = model(name, X, box=(low, high))
    for found in (boxed.denoise(Z), boxed.inverse_transform(boxed.transform(Z)), boxed.denoise(Z + dtype(1e4))):
        assert found.dtype == dtype
        assert (found >= low.astype(dtype)).all() and (found <= high.astype(dtype)).all()
    wide = model(name, X, box=(-1e3, 1e3))
    assert_allclose(wide.denoise(Z), model(name, X).denoise(Z), atol=1e-6)
    elsewhere = model(name, X, box=(50, 60)).denoise(Z)
    assert ((elsewhere >= 50) & (elsewhere <= 60)).all()


@every
def test_in_a_box_the_best_point_of_the_box_is_found_not_the_clipped_one(name: str) -> None:
    if name in ROUGH:
        pytest.skip("kinks have several summits")
    X, Z = rows(), noisy(6)
    slow, box = Slow(name, X, 6), (np.array([-9, -9, -9.0]), np.array([9, 9, 0.2]))
    boxed, free = model(name, X, box=box, tol=1e-8).denoise(Z), model(name, X, tol=1e-8).denoise(Z)
    T, outside = slow.scores(Z), free[:, 2] > 0.2
    assert outside.any()
    for z, other, t in zip(boxed[outside], free[outside], T[outside], strict=True):
        clipped = np.clip(other, *box)
        assert slow.height(z, t, rescale=True) >= slow.height(clipped, t, rescale=True) - 1e-9


# ---- what would break it


@pytest.mark.parametrize("name", ["rbf", "rbf each", "exponential", "matern 3/2", "scaled"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_out_of_reach_starts_from_the_nearest_row_and_is_counted(name: str, dtype: Any) -> None:
    X = rows().astype(dtype)
    Z = np.vstack([noisy(3), [[1e6, 0, 0]], noisy(2, seed=5), [[0, -1e5, 3]]]).astype(dtype)
    fast = model(name, X)
    found = fast.denoise(Z)
    lost = fast.preimage_report_.fallbacks[OUT_OF_REACH]
    assert_array_equal(np.flatnonzero(lost), [3, 6])
    assert f"2 rows: {OUT_OF_REACH}" in str(fast.preimage_report_)
    assert (found >= X.min(axis=0) - 0.5).all() and (found <= X.max(axis=0) + 0.5).all()
    # the projection of such a row is that of anything infinitely far away
    assert_allclose(found[3], found[6], atol=1e-3)
    fast.denoise(Z[:3])
    assert not fast.preimage_report_.fallbacks
    fast.denoise(Z[3:4])
    assert NOTHING_LEFT in fast.preimage_report_.fallbacks
    assert_array_equal(fast.preimage_report_.gains, 1)


@every
def test_a_start_on_a_base_row_does_not_stick_there(name: str) -> None:
    """Training rows as inputs: slopes of rough kernels are infinite at distance 0."""
    X = rows()
    fast = model(name, X, 3)
    found = fast.denoise(X)
    assert np.isfinite(found).all()
    moved = np.linalg.norm(found - X, axis=1)
    assert (moved > 1e-3).mean() > 0.9


@every
def test_weights_without_a_denominator(name: str) -> None:
    """Scores far from all that data have make weights of either sign, whose sum may be 0 or negative."""
    X = rows(30)
    fast = model(name, X, 8)
    T = fast.transform(X)
    for factor in (-30.0, -3.0, 3.0, 30.0, 1e6):
        found = fast.inverse_transform(factor * T)
        assert np.isfinite(found).all()
        assert (np.abs(found) < 1e3).all()


@every
def test_float32_is_float64_rounded(name: str) -> None:
    X, Z = rows(), noisy(10)
    single, double = model(name, X.astype(np.float32)), model(name, X)
    found = single.denoise(Z.astype(np.float32))
    assert found.dtype == np.float32
    atol = 0.05 if name in ROUGH else 2e-3  # a step shorter than 1e-3 of the bandwidth ends it
    assert_allclose(found, double.denoise(Z), atol=atol)
    T = single.transform(Z.astype(np.float32))
    assert_allclose(single.inverse_transform(T), double.inverse_transform(double.transform(Z)), atol=atol)


@pytest.mark.parametrize("shape", [(40, 1), (3, 2), (2, 1), (5, 30)])
def test_shapes_at_the_edge(shape: tuple[int, int]) -> None:
    X = np.random.default_rng(0).standard_normal(shape)
    fast = KernelPCA(None, kernel=RBF(0.5), preimage=FixedPoint(starts=4)).fit(X)
    assert_allclose(fast.inverse_transform(fast.transform(X)), X, atol=1e-4)
    assert_allclose(fast.denoise(X), X, atol=1e-4)


def test_no_scores_give_no_rows() -> None:
    fast = model("rbf", rows())
    assert fast.inverse_transform(np.empty((0, 6))).shape == (0, 3)


def test_bits_do_not_depend_on_threads_and_rows_not_on_company() -> None:
    X, Z = rows(400), noisy(1500)
    one, two = (model("matern 3/2", X, 20, n_jobs=jobs) for jobs in (1, 2))
    found = one.denoise(Z)
    assert_array_equal(two.denoise(Z), found)
    assert_array_equal(one.denoise(Z), found)
    for i in (0, 511, 512, 1499):
        assert_allclose(one.denoise(Z[i : i + 1])[0], found[i], atol=1e-4)
    assert_allclose(one.denoise(Z[::-1])[::-1], found, atol=1e-4)


# ---- what is refused


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"starts": 0}, "starts must be a whole number from 1; got 0"),
        ({"starts": True}, "starts must be a whole number from 1; got True"),
        ({"starts": 1.0}, "starts must be a whole number"),
        ({"max_iter": 0}, "max_iter must be a whole number from 1; got 0"),
        ({"max_iter": None}, "max_iter must be a whole number"),
        ({"tol": 0.0}, "tol must be a number between 0 and 1; got 0.0"),
        ({"tol": 1.0}, "tol must be a number between 0 and 1"),
        ({"tol": np.nan}, "tol must be a number between 0 and 1"),
        ({"tol": "small"}, "tol must be a number between 0 and 1; got 'small'"),
        ({"penalty": -0.1}, "penalty must be a finite number, 0 or larger"),
        ({"penalty": np.inf}, "penalty must be a finite number"),
        ({"penalty": None}, "penalty must be a finite number"),
        ({"box": (1, 0)}, "box must have low <= high"),
        ({"box": (0, np.nan)}, "box must have low <= high"),
        ({"box": 3}, "box must be None or a pair"),
        ({"box": (0, 1, 2)}, "box must be None or a pair"),
        ({"box": ([0, 0], [1, 1])}, "of 3 numbers each"),
        ({"rescale": "no"}, "rescale must be True or False; got 'no'"),
        ({"rescale": None}, "rescale must be True or False; got None"),
    ],
)
def test_bad_settings_are_one_sentence(how: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        model("rbf", rows(), **how)
    text = str(caught.value)
    assert words in text and "\n" not in text and text.endswith(".")


@pytest.mark.parametrize(("kernel", "other"), [(Polynomial(2), "gradient"), (RBF(1.0) + Linear(), "gradient")])
def test_other_kernels_are_refused_with_a_way_out(kernel: Kernel, other: str) -> None:
    with pytest.raises(InputError, match=f"needs a kernel of the distance.*take preimage='{other}'"):
        KernelPCA(2, kernel=kernel, preimage="fixed-point").fit(rows())
