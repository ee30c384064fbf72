"""Pre-images as users have them: every method, model and kernel by the public API, held to the same promises."""

from __future__ import annotations

import pickle
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import reference
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as Theirs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor

import kpca
from kpca import InputError, KernelPCA, Nystroem, RandomFeatures
from kpca.kernels import (
    RBF,
    ArcCosine,
    Cosine,
    Exponential,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
)
from kpca.preimage import Auto, Distance, FixedPoint, Gradient, Learned, Ridge, traverse
from kpca.preimage.fixed_point import OUT_OF_REACH

pytestmark = [
    pytest.mark.filterwarnings("error::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*landmarks explain all rows.*:UserWarning"),
]

METHODS: dict[str, Any] = {
    "auto": "auto",
    "ridge": "ridge",
    "fixed-point": "fixed-point",
    "distance": "distance",
    "gradient": "gradient",
    "regressor": KNeighborsRegressor(3),
}
SETTINGS: dict[str, Any] = {
    "auto": Auto,
    "ridge": Ridge,
    "fixed-point": FixedPoint,
    "distance": Distance,
    "gradient": Gradient,
    "regressor": lambda **how: Learned(KNeighborsRegressor(3), **how),
}
MODELS: dict[str, Any] = {"exact": None, "landmarks": Nystroem(20), "random": RandomFeatures(80)}


def kernels(width: float = 2.0) -> dict[str, Kernel]:
    """One of each kind, for data that spread over about 2, or over `width`."""
    gamma = 0.5 / width**2
    return {
        "rbf": RBF(gamma),
        "rbf each": RBF((gamma, 2 * gamma, 0.5 * gamma)),
        "exponential": Exponential(width),
        "matern": Matern(1.5, width),
        "rational quadratic": RationalQuadratic(0.8, width),
        "scaled": 3.0 * RBF(gamma),
        "laplacian": Laplacian(0.5 / width),
        "sum": RBF(gamma) + 0.5 * Matern(2.5, width),
        "polynomial": Polynomial(3, 1 / width**2, 1.0),
        "even": Polynomial(2, 1 / width**2, 1.0),
        "cosine": Cosine(),
        "arc-cosine": ArcCosine(1),
        "linear": Linear(),
        "multiple": 2.0 * Linear(),
    }


RADIAL = ("rbf", "rbf each", "exponential", "matern", "rational quadratic", "scaled")
SHIFT_INVARIANT = (*RADIAL, "laplacian", "sum")


def serves(method: str, kernel: str, model: str = "exact") -> bool:
    if model == "random" and kernel not in ("rbf", "rbf each", "exponential", "matern", "laplacian", "polynomial"):
        return False
    if method == "fixed-point":
        return kernel in (*RADIAL, "linear")
    if method == "distance":
        return kernel in (*RADIAL, "polynomial", "linear", "multiple")
    return method != "gradient" or kernel != "laplacian"


CASES = [(e, m, k) for k in kernels() for m in MODELS for e in METHODS if serves(e, k, m)]
cases = pytest.mark.parametrize(("method", "model", "kernel"), CASES)
# By descent on an exponential kernel every known row is a kink, and rounding decides which of two is the end.
MOVABLE = [case for case in CASES if case[2] in SHIFT_INVARIANT and (case[0], case[2]) != ("gradient", "exponential")]
every_method = pytest.mark.parametrize("method", METHODS)


def rows(n: int = 50, seed: int = 0) -> np.ndarray:
    """A bent sheet in three dimensions."""
    rng = np.random.default_rng(seed)
    u, v = rng.uniform(-1.5, 1.5, (2, n))
    return np.column_stack([u, v, u**2 - v]) + 0.05 * rng.standard_normal((n, 3))


def noisy(m: int = 8, seed: int = 1) -> np.ndarray:
    return rows(m, seed) + 0.2 * np.random.default_rng(seed).standard_normal((m, 3))


def fitted(method: str, X: Any, kernel: Any = "rbf", model: str = "exact", k: Any = 5, **how: Any) -> KernelPCA:
    kernel = kernels()[kernel] if isinstance(kernel, str) else kernel
    weights = how.pop("sample_weight", None)
    estimator = KernelPCA(k, kernel=kernel, approximation=MODELS[model], preimage=METHODS[method], **how)
    return estimator.fit(X, sample_weight=weights)


def both(model: KernelPCA, Z: Any) -> tuple[np.ndarray, np.ndarray]:
    return model.inverse_transform(model.transform(Z)), model.denoise(Z)


# ---- the same promises for all


@pytest.mark.slow
@pytest.mark.parametrize(("method", "model", "kernel"), MOVABLE)
def test_constant_added_to_the_data_is_added_to_the_rows(method: str, model: str, kernel: str) -> None:
    X, Z = rows(), noisy()
    here, there = (both(fitted(method, X + by, kernel, model), Z + by) for by in (0.0, 1e3))
    for before, after in zip(here, there, strict=True):
        rough = (model, kernel) == ("random", "exponential")  # kinks beside each of the rows that features are made of
        assert_allclose(after - 1e3, before, rtol=0, atol=2e-3 if rough else 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "model", "kernel"), MOVABLE)
def test_units_of_the_data_are_those_of_the_rows(method: str, model: str, kernel: str) -> None:
    X, Z = rows(), noisy()
    small = both(fitted(method, X, kernels(2.0)[kernel], model), Z)
    large = both(fitted(method, 10 * X, kernels(20.0)[kernel], model), 10 * Z)
    for before, after in zip(small, large, strict=True):
        assert_allclose(after / 10, before, rtol=0, atol=2e-3 if (model, kernel) == ("random", "exponential") else 1e-5)


@pytest.mark.parametrize("method", ["fixed-point", "gradient", "distance", "ridge", "auto"])
@pytest.mark.parametrize("kernel", [*RADIAL, "polynomial", "linear"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_with_all_components_training_rows_come_back(method: str, kernel: str, dtype: Any) -> None:
    if not serves(method, kernel):
        pytest.skip("no such inverse map")
    X = rows().astype(dtype)
    how = Ridge(alpha=1e-12) if method == "ridge" else method
    model = KernelPCA(None, kernel=kernels()[kernel], preimage=how).fit(X)
    rough = kernel == "exponential" and dtype == np.float32  # float32 stops a step of 1e-3 before a kink
    atol = {np.float64: 1e-4 if method in ("auto", "fixed-point") else 1e-5, np.float32: 5e-3 if rough else 1e-3}[dtype]
    for found in both(model, X):
        assert found.dtype == dtype
        assert_allclose(found, X, rtol=0, atol=atol)


def curve(t: Any) -> np.ndarray:
    return np.column_stack([np.cos(t), np.sin(t), 0.3 * np.asarray(t)])


@pytest.mark.parametrize(
    ("model", "kernel"),
    [("exact", RBF(0.5)), ("exact", Matern(2.5, 1.5)), ("landmarks", Matern(2.5, 1.5)), ("random", RBF(0.5))],
)
def test_on_an_easy_curve_all_methods_agree_with_each_other_and_with_the_truth(model: str, kernel: Kernel) -> None:
    """400 rows of a curve, 8 components: rows between them come back within 0.05, from scores alone and denoised."""
    C, T = curve(np.sort(np.random.default_rng(0).uniform(0, 3, 400))), curve(np.linspace(0.2, 2.8, 30))
    how = {"exact": None, "landmarks": Nystroem(60), "random": RandomFeatures(1000)}[model]
    restored, denoised = {}, {}
    for name, preimage in METHODS.items():
        estimator = KernelPCA(8, kernel=kernel, approximation=how, preimage=preimage).fit(C)
        restored[name], denoised[name] = both(estimator, T)
    for found in (restored, denoised):
        for name, back in found.items():
            assert_allclose(back, T, rtol=0, atol=0.05, err_msg=name)
        for name in ("ridge", "auto"):
            # gains of random features compare them with the kernel that they stand for
            assert_allclose(found[name], T, rtol=0, atol=0.02 if model == "random" else 1e-3, err_msg=name)
        near = 0.02 if model == "random" else 5e-3
        assert_allclose(found["gradient"], found["fixed-point"], rtol=0, atol=near)


@every_method
@pytest.mark.parametrize("model", MODELS)
def test_noise_is_taken_away(method: str, model: str) -> None:
    rng = np.random.default_rng(0)
    C, T = curve(rng.uniform(0, 3, 400)), curve(np.linspace(0.2, 2.8, 60))
    Z = T + 0.1 * rng.standard_normal(T.shape)
    found = fitted(method, C + 0.02 * rng.standard_normal(C.shape), RBF(0.5), model, k=6).denoise(Z)
    share = 1.01 if method == "ridge" else 0.7  # a map has learned nothing about rows off the curve
    assert np.square(found - T).sum() < share * np.square(Z - T).sum()


@every_method
@pytest.mark.parametrize("factor", [100.0, 1000.0])
@pytest.mark.parametrize("what", ["inverse_transform", "denoise"])
def test_a_wide_kernel_is_linear_pca(method: str, factor: float, what: str, request: Any) -> None:
    """With as many components as features nothing is lost, and rows come back, clean ones from denoise as well."""
    if method == "regressor":
        pytest.skip("neighbours do not extrapolate")
    X = np.random.default_rng(0).standard_normal((80, 3))
    Z = X[:10] + 0.1
    model = fitted(method, X, RBF(sigma=2 * factor), k=3)
    found = model.inverse_transform(model.transform(Z)) if what == "inverse_transform" else model.denoise(Z)
    # a mixture takes its shares from a distance that is all rounding there
    assert_allclose(found, Z, rtol=0, atol=0.25 if (method, factor) == ("auto", 1000.0) else 0.02)


# ---- nothing but numbers comes back


def hostile(kind: str) -> np.ndarray:
    X = np.random.default_rng(0).normal(size=(24, 3))
    if kind == "duplicates":
        return np.vstack([X[:6]] * 4)
    if kind == "constant column":
        X[:, 1] = 2.0
    elif kind == "all the same":
        X[:] = 1.0
    elif kind == "mostly one row":
        X[5:] = X[0]
    return X


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "model", "kernel"), [case for case in CASES if case[2] in SHIFT_INVARIANT or case[1] == "exact"]
)
def test_whatever_comes_rows_are_finite(method: str, model: str, kernel: str) -> None:
    """Bandwidths from 1e-3 to 1e3 times the spread, one component to all, weights with zeros, with and without mean."""
    rng = np.random.default_rng(CASES.index((method, model, kernel)))
    kinds = rng.permutation(["plain", "duplicates", "constant column", "all the same", "mostly one row"])
    for factor, kind in zip((1e-3, 0.1, 1.0, 30.0, 1e3), kinds, strict=True):
        dtype = rng.choice([np.float64, np.float32])
        k, center, weighted = [1, 5, None][rng.integers(3)], bool(rng.integers(2)), bool(rng.integers(2))
        X = hostile(kind).astype(dtype)
        weights = np.r_[np.zeros(3), np.ones(12), np.full(9, 2.5)] if weighted else None
        of = kernels(2.0 if kernel == "polynomial" else 2.0 * factor)[kernel]  # cubes of 1e6 over 1e-3 are no floats
        fast = fitted(method, X, of, model, k, center=center, sample_weight=weights)
        Z = np.vstack([X[:2], X[:2] + dtype(0.1), X[:1] + dtype(1e6), -1e6 * np.ones((1, 3))]).astype(dtype)
        T = fast.transform(Z)
        where = f"{factor=} {kind=} {dtype=} {k=} {center=} {weighted=}"
        for found in (fast.inverse_transform(T), fast.denoise(Z), fast.inverse_transform(100 * T)):
            assert found.shape == Z.shape and found.dtype == dtype, where
            assert np.isfinite(found).all(), where
        for space in ("input", "feature"):
            errors = fast.reconstruction_error(Z, space)
            assert np.isfinite(errors).all() and (errors >= 0).all(), where


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "ridge", "fixed-point", "distance", "gradient"])
@pytest.mark.parametrize("model", ["exact", "landmarks"])
@pytest.mark.parametrize("kernel", RADIAL)
@pytest.mark.parametrize("k", [1, 5, None])
def test_what_is_far_away_does_not_take_the_result_with_it(
    method: str, model: str, kernel: str, k: Any, request: Any
) -> None:
    """Ten bandwidths from the data is the farthest that anything pulls to."""
    X = rows()
    Z = np.vstack([X[:2] + 0.1, [[1e6, 0.0, 0.0], [-1e8, 1e8, 0.0]]])
    for width in (0.1, 2.0, 60.0) if k is None else (2.0,):
        for found in both(fitted(method, X, kernels(width)[kernel], model, k), Z):
            assert (np.abs(found) < 10 + 10 * width).all(), width


@every_method
def test_zero_weights_are_absent_rows(method: str) -> None:
    X, Z = rows(), noisy()
    weights = np.ones(len(X))
    weights[::3] = 0.0
    spoiled = X.copy()
    spoiled[::3] = 1e3
    given, absent = (
        fitted(method, spoiled, "rbf", sample_weight=weights),
        fitted(method, X[weights > 0], "rbf"),
    )
    for left, right in zip(both(given, Z), both(absent, Z), strict=True):
        assert_allclose(left, right, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    "preimage",
    [Ridge(alpha=0.1, gamma=1.0), FixedPoint(tol=1e-8), Distance(), Gradient(), LinearRegression()],
    ids=lambda preimage: type(preimage).__name__,
)
def test_whole_weights_are_repeated_rows(preimage: Any) -> None:
    X, Z = rows(), noisy()
    weights = np.random.default_rng(0).integers(1, 5, len(X))
    model = KernelPCA(4, kernel=RBF(0.2), preimage=preimage)
    given = both(model.fit(X, sample_weight=weights), Z)
    repeated = both(model.fit(np.repeat(X, weights, axis=0)), Z)
    plain = both(model.fit(X), Z)
    for left, right, other in zip(given, repeated, plain, strict=True):
        assert_allclose(left, right, rtol=0, atol=1e-4)
        assert np.abs(left - other).max() > 5e-3


# ---- the linear kernel


@every_method
@pytest.mark.parametrize("approximation", [None, "nystroem", "auto"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_linear_kernel_is_pca_mean_included(method: str, approximation: Any, dtype: Any, offset: float) -> None:
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((60, 6)) @ rng.standard_normal((6, 6)) + offset).astype(dtype)
    model = KernelPCA(3, preimage=METHODS[method], approximation=approximation).fit(X[:50])
    truth = PCA(3).fit(X[:50].astype(np.float64))
    Z = X[50:]
    if method == "regressor":
        assert np.isfinite(model.denoise(Z)).all()
        return
    expected = truth.inverse_transform(truth.transform(Z.astype(np.float64)))
    for found in both(model, Z):
        assert found.dtype == dtype
        assert_allclose(found, expected, rtol=0, atol=1e-10 if dtype == np.float64 else 1e-3)
    lost = np.square(Z - expected).sum(axis=1)
    for space in ("input", "feature"):
        assert_allclose(model.reconstruction_error(Z, space), lost, rtol=1e-8 if dtype == np.float64 else 1e-3)
    assert model.preimage_report_.method == "linear"


def test_linear_kernel_keeps_box_and_penalty() -> None:
    X = rows()
    plain = KernelPCA(2, preimage="auto").fit(X)
    boxed = KernelPCA(2, preimage=Ridge(box=(-0.5, [0.5, 0.2, 0.1]))).fit(X)
    assert_array_equal(boxed.denoise(X), np.clip(plain.denoise(X), -0.5, [0.5, 0.2, 0.1]))
    pulled = KernelPCA(2, preimage=Gradient(penalty=3.0)).fit(X)
    assert_allclose(pulled.denoise(X), (plain.denoise(X) + 3 * X) / 4)


# ---- limits that all methods know


@every_method
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_results_are_in_the_box(method: str, dtype: Any) -> None:
    X, Z = rows().astype(dtype), noisy().astype(dtype)
    low, high = np.array([-0.5, 0.1, -np.inf]), np.array([0.5, 0.1, 0.3])
    model = KernelPCA(5, kernel=RBF(0.2), preimage=SETTINGS[method](box=(low, high))).fit(X)
    for found in both(model, Z):
        assert found.dtype == dtype
        assert (found >= low.astype(dtype)).all() and (found <= high.astype(dtype)).all()


@every_method
def test_penalty_leads_from_the_free_row_to_the_input(method: str) -> None:
    X, Z = rows(), noisy()

    def gap(penalty: float) -> float:
        model = KernelPCA(5, kernel=RBF(0.2), preimage=SETTINGS[method](penalty=penalty)).fit(X)
        return float(np.linalg.norm(model.denoise(Z) - Z))

    gaps = [gap(0.0), gap(0.1), gap(1.0), gap(1e7)]
    assert gaps == sorted(gaps, reverse=True) and gaps[-1] < 1e-4 and gaps[0] > 0.05


# ---- reconstruction error

Weights = np.random.default_rng(5).uniform(0.2, 3.0, 50)


@pytest.mark.parametrize("kernel", [name for name in kernels() if name != "cosine"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("center", [True, False])
def test_feature_error_is_the_slow_formula(kernel: str, weighted: bool, center: bool) -> None:
    X, Z, k = rows(), np.vstack([noisy(), rows()[:3], [[9.0, 9.0, 9.0]]]), 4
    if kernel in ("linear", "multiple"):
        k = 2
    of = kernels()[kernel]
    weights = Weights if weighted else None
    model = KernelPCA(k, kernel=of, center=center).fit(X, sample_weight=weights)
    truth = reference.feature_error(of.block(X, X), of.block(Z, X), of.diagonal(Z), k, weights, center)
    size = of.diagonal(Z).max()
    assert_allclose(model.reconstruction_error(Z, "feature"), truth, rtol=1e-7, atol=1e-10 * size)
    for other in (sparse.csr_array(X), X):
        mixed = KernelPCA(k, kernel=of, center=center).fit(other, sample_weight=weights)
        for new in (sparse.csr_array(Z), Z):
            assert_allclose(mixed.reconstruction_error(new, "feature"), truth, rtol=1e-6, atol=1e-9 * size)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
def test_feature_error_of_landmarks_counts_what_they_miss(center: bool, weighted: bool) -> None:
    X, Z, of = rows(), np.vstack([noisy(), [[5.0, 5.0, 5.0]]]), Matern(1.5, 2.0)
    weights = Weights if weighted else None
    model = KernelPCA(4, kernel=of, approximation=Nystroem(15), center=center).fit(X, sample_weight=weights)
    landmarks = model.X_fit_
    values, U = np.linalg.eigh(of.block(landmarks, landmarks))
    F, new = (of.block(rows, landmarks) @ U / np.sqrt(values) for rows in (X, Z))
    w = np.ones(len(X)) if weights is None else weights
    mean = w @ F / w.sum() if center else np.zeros(15)
    V = np.linalg.eigh((w[:, None] * (F - mean)).T @ (F - mean))[1][:, -4:]
    P = mean + (new - mean) @ V @ V.T
    truth = of.diagonal(Z) - np.square(new).sum(axis=1) + np.square(new - P).sum(axis=1)
    assert_allclose(model.reconstruction_error(Z, "feature"), truth, rtol=1e-7, atol=1e-10)


def test_feature_error_of_random_features_is_that_of_their_pca() -> None:
    X, Z = rows(), noisy()
    model = KernelPCA(4, kernel=RBF(0.2), approximation=RandomFeatures(60)).fit(X)
    pca = PCA(4).fit(model.feature_map_(X))
    F = model.feature_map_(Z)
    truth = np.square(F - pca.inverse_transform(pca.transform(F))).sum(axis=1)
    assert_allclose(model.reconstruction_error(Z, "feature"), truth, rtol=1e-7)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", ["exact", "landmarks"])
def test_feature_errors_of_wide_kernels_are_small_and_not_negative(dtype: Any, model: str) -> None:
    X, Z = rows().astype(dtype), noisy(40).astype(dtype)
    for factor in (1.0, 30.0, 1e3):
        errors = fitted("ridge", X, RBF(sigma=2 * factor), model, k=9).reconstruction_error(Z, "feature")
        assert (errors >= 0).all() and (errors <= 0.1 / factor**2).all()


@cases
def test_input_error_is_the_squared_distance_to_the_denoised_row(method: str, model: str, kernel: str) -> None:
    fast, Z = fitted(method, rows(), kernel, model), noisy()
    errors = fast.reconstruction_error(Z)
    assert errors.dtype == np.float64
    assert_allclose(errors, np.square(Z - fast.denoise(Z)).sum(axis=1), rtol=1e-12)


def pieces(Z: Any, kind: str, folder: Path) -> Any:
    if kind in ("path", "memory map"):
        np.save(folder / "Z.npy", Z)
        return folder / "Z.npy" if kind == "path" else np.load(folder / "Z.npy", mmap_mode="r")
    parts = [Z[:3], Z[3:4], Z[4:]]
    if kind == "sparse chunks":
        return [sparse.csr_array(part) for part in parts]
    return iter(parts) if kind == "generator" else parts


@pytest.mark.parametrize("kind", ["path", "memory map", "chunks", "generator", "sparse chunks"])
@pytest.mark.parametrize("method", ["auto", "gradient"])
def test_sources_give_what_arrays_give(kind: str, method: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("kpca.data.sources.CHUNK_BYTES", 4 * 3 * 8)  # or nine rows were one chunk
    X, Z = rows(), noisy(9)
    model = fitted(method, X)
    denoised = model.denoise(Z)
    whole = model.preimage_report_
    assert_allclose(model.denoise(pieces(Z, kind, tmp_path)), denoised, rtol=0, atol=1e-5)
    report = model.preimage_report_
    assert report.rows == 9
    assert_allclose(report.gains, whole.gains, rtol=1e-4)
    for space in ("input", "feature"):
        errors = model.reconstruction_error(Z, space)
        assert_allclose(model.reconstruction_error(pieces(Z, kind, tmp_path), space), errors, rtol=0, atol=1e-5)
    assert model.preimage_report_.rows == 9 and len(model.preimage_report_.iterations) == 9


@pytest.mark.filterwarnings("error::UserWarning")
def test_column_names_are_compared_once_and_no_warning_is_given(tmp_path: Path) -> None:
    X, Z = (pd.DataFrame(part, columns=["a", "b", "c"]) for part in (rows(), noisy()))
    model = fitted("ridge", X)
    Z.to_parquet(tmp_path / "Z.parquet")
    for space in ("input", "feature"):
        assert_allclose(
            model.reconstruction_error(tmp_path / "Z.parquet", space), model.reconstruction_error(Z, space), atol=1e-12
        )
    Z[["b", "a", "c"]].to_parquet(tmp_path / "other.parquet")
    for space in ("input", "feature"):
        with pytest.raises(InputError, match="must have the columns the model was fitted on"):
            model.reconstruction_error(tmp_path / "other.parquet", space)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("model", ["landmarks", "random"])
def test_way_back_from_a_file_is_learned_from_all_over_the_file(model: str, weighted: bool, tmp_path: Path) -> None:
    """Rows in files are often sorted. Rows without weight take no part."""
    C, T = curve(np.linspace(0, 3, 4000)), curve(np.linspace(1.8, 2.8, 20))
    np.save(tmp_path / "C.npy", C)
    weights = np.r_[np.zeros(2000), np.ones(2000)] if weighted else None
    how = {"landmarks": Nystroem(40), "random": RandomFeatures(100)}[model]
    preimage = "fixed-point" if model == "random" else KNeighborsRegressor(3)
    estimator = KernelPCA(6, kernel=RBF(0.5), approximation=how, preimage=preimage)
    from_array = estimator.fit(C, sample_weight=weights).inverse_transform(estimator.transform(T))
    assert_allclose(from_array, T, rtol=0, atol=1e-2)
    from_file = estimator.fit(tmp_path / "C.npy", sample_weight=weights).inverse_transform(estimator.transform(T))
    assert_allclose(from_file, T, rtol=0, atol=1e-2)


def test_errors_that_make_no_sense_are_refused() -> None:
    X = rows()
    K = X @ X.T
    with pytest.raises(InputError, match=r"needs k\(x, x\) of new rows, which a precomputed kernel does not give"):
        KernelPCA(2, kernel="precomputed").fit(K).reconstruction_error(K, "feature")
    model = fitted("ridge", X)
    for space in ("data", None, ["input"]):
        with pytest.raises(InputError, match="space must be 'input' or 'feature'; got"):
            model.reconstruction_error(X, space)
    assert KernelPCA(2, kernel="rbf").fit(X).reconstruction_error(X, "feature").shape == (50,)  # needs no inverse map


# ---- scikit-learn's map, and none


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_their_map_on_centred_data(kernel: str) -> None:
    X = rows() - rows().mean(axis=0)
    how = {"kernel": kernel, "gamma": 0.2, "fit_inverse_transform": True, "alpha": 0.1}
    ours, theirs = KernelPCA(2, **how).fit(X), Theirs(2, **how).fit(X)
    signs = np.sign(np.sum(ours.transform(X) * theirs.transform(X), axis=0))
    T = ours.transform(noisy())
    assert_allclose(ours.inverse_transform(T), theirs.inverse_transform(T * signs), atol=1e-6)
    assert str(ours.preimage_report_).startswith("ridge: scikit-learn's map, with an intercept")
    assert_allclose(ours.denoise(noisy()), ours.inverse_transform(T), atol=1e-12)


def test_a_preimage_takes_the_place_of_their_map() -> None:
    X = rows()
    model = KernelPCA(3, kernel="rbf", fit_inverse_transform=True, preimage="fixed-point").fit(X)
    assert model.preimage_report_.method == "fixed-point"
    assert not hasattr(model, "dual_coef_")
    model.set_params(preimage=None).fit(X)
    assert model.preimage_report_.method == "ridge" and hasattr(model, "dual_coef_")


@pytest.mark.parametrize(
    "what", ["inverse_transform", "denoise", "reconstruction_error", "preimage_report_", "traverse"]
)
def test_without_a_way_back_the_error_says_what_to_set(what: str) -> None:
    X = rows()
    model = KernelPCA(2, kernel="rbf").fit(X)
    calls = {
        "inverse_transform": lambda: model.inverse_transform(model.transform(X)),
        "denoise": lambda: model.denoise(X),
        "reconstruction_error": lambda: model.reconstruction_error(X),
        "preimage_report_": lambda: model.preimage_report_,
        "traverse": lambda: traverse(model),
    }
    with pytest.raises(NotFittedError, match=re.escape("KernelPCA(preimage='auto') or KernelPCA(fit_inverse")):
        calls[what]()
    with pytest.raises(NotFittedError, match="not fitted yet"):
        KernelPCA(2, preimage="auto").denoise(X)


# ---- what is refused


@pytest.mark.parametrize(
    ("preimage", "words"),
    [
        ("rigde", "Did you mean 'ridge'?"),
        ("fixed_point", "Did you mean 'fixed-point'?"),
        ("Auto", "Did you mean 'auto'?"),
        ("nothing like it", "preimage must be one of 'auto', 'ridge'"),
        ("", "preimage must be one of"),
        (Ridge, "preimage must be None, one of"),
        (KNeighborsRegressor, "a regressor with fit and predict; got <class"),
        (3, "got 3."),
        (True, "got True."),
        (object(), "preimage must be None, one of"),
        (PCA(2), "a regressor with fit and predict; got PCA"),
    ],
)
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_what_is_no_method_is_refused(preimage: Any, words: str, kernel: str) -> None:
    with pytest.raises(InputError) as caught:
        KernelPCA(2, kernel=kernel, preimage=preimage).fit(rows())
    assert words in str(caught.value) and "\n" not in str(caught.value)


def gaussian(A: Any, B: Any) -> Any:
    return np.exp(-0.3 * np.square(A[:, None] - B[None]).sum(axis=-1))


@every_method
def test_kernels_given_as_functions_have_a_learned_way_back(method: str) -> None:
    X, Z = rows(), noisy()
    if method in ("auto", "ridge", "regressor"):
        model = KernelPCA(5, kernel=gaussian, preimage=METHODS[method]).fit(X)
        same = KernelPCA(5, kernel=RBF(0.3), preimage="ridge" if method == "auto" else METHODS[method]).fit(X)
        T = same.transform(Z)
        assert_allclose(model.inverse_transform(T), same.inverse_transform(T), atol=1e-6)
        if method == "auto":
            assert "has no gradient here" in model.preimage_report_.reason
        return
    with pytest.raises(InputError, match="take preimage='ridge'") as caught:
        KernelPCA(5, kernel=gaussian, preimage=method).fit(X)
    assert f"preimage='{method}' needs a kernel" in str(caught.value) and "\n" not in str(caught.value)


@every_method
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"box": (1, 0)}, "box must have low <= high"),
        ({"box": 3}, "box must be None or a pair"),
        ({"box": ([0, 0], [1, 1])}, "of 3 numbers each"),
        ({"penalty": -1.0}, "penalty must be a finite number"),
        ({"penalty": "much"}, "penalty must be a finite number"),
        ({"rescale": "no"}, "rescale must be True or False; got 'no'"),
        ({"tol": 0.0}, "tol must be a"),
        ({"tol": np.nan}, "tol must be a"),
        ({"max_iter": 1.5}, "max_iter must be a whole number"),
        ({"neighbours": 0}, "neighbours must be a whole number"),
        ({"alpha": -1.0}, "alpha must be None"),
        ({"gamma": 0.0}, "gamma must be None"),
    ],
)
def test_bad_settings_are_one_sentence(method: str, how: dict[str, Any], words: str) -> None:
    try:
        preimage = SETTINGS[method](**how)
    except TypeError:
        pytest.skip("no such setting")
    with pytest.raises(InputError) as caught:
        KernelPCA(2, kernel="rbf", preimage=preimage).fit(rows())
    text = str(caught.value)
    assert words in text and "\n" not in text and text.endswith(".")


@every_method
def test_precomputed_and_sparse_have_no_way_back(method: str) -> None:
    X = rows()
    with pytest.raises(ValueError, match="Cannot find pre-images with a precomputed kernel"):
        KernelPCA(2, kernel="precomputed", preimage=METHODS[method]).fit(X @ X.T)
    for kernel in ("rbf", "linear"):
        for approximation in (None, Nystroem(10)):
            model = KernelPCA(2, kernel=kernel, preimage=METHODS[method], approximation=approximation)
            with pytest.raises(NotImplementedError, match="densify"):
                model.fit(sparse.csr_array(X))
    model = fitted(method, X)
    assert_allclose(model.denoise(sparse.csr_array(X)), model.denoise(X), atol=1e-12)  # of new rows there is no doubt


@every_method
def test_bad_scores_and_rows_are_refused_and_the_report_stays(method: str) -> None:
    model = fitted(method, rows())
    model.denoise(noisy())
    before = str(model.preimage_report_)
    for scores in (np.ones((2, 4)), np.ones(5), np.full((1, 5), np.nan), [["a"] * 5]):
        with pytest.raises(InputError, match="Scores must be"):
            model.inverse_transform(scores)
    for Z in (np.ones((2, 4)), np.full((1, 3), np.inf), np.empty((0, 3))):
        with pytest.raises(InputError):
            model.denoise(Z)
    assert str(model.preimage_report_) == before
    assert model.inverse_transform(np.empty((0, 5))).shape == (0, 3)


# ---- a good citizen of scikit-learn


@every_method
def test_settings_are_parameters(method: str) -> None:
    preimage = SETTINGS[method](penalty=0.5)
    model = KernelPCA(3, kernel="rbf", preimage=preimage)
    assert model.get_params()["preimage__penalty"] == 0.5
    copy = clone(model).set_params(preimage__penalty=2.0)
    assert copy.preimage.penalty == 2.0 and preimage.penalty == 0.5
    before = {name: value for name, value in model.get_params().items() if name != "preimage"}
    model.fit(rows())
    assert {name: value for name, value in model.get_params().items() if name != "preimage"} == before
    assert not [name for name in vars(model.preimage) if name.endswith("_")]
    X, Z = rows(), noisy()
    direct = KernelPCA(3, kernel="rbf", preimage=SETTINGS[method](penalty=2.0)).fit(X)
    assert_array_equal(copy.fit(X).denoise(Z), direct.denoise(Z))
    assert np.abs(copy.denoise(Z) - model.denoise(Z)).max() > 1e-3


def test_grid_search_over_the_way_back() -> None:
    X = curve(np.random.default_rng(0).uniform(0, 3, 90))
    search = GridSearchCV(
        KernelPCA(6, kernel=RBF(0.5), preimage=Ridge()),
        {"preimage__alpha": [1e-8, 10.0]},
        scoring=lambda model, rows, y=None: -model.reconstruction_error(rows).mean(),
        cv=3,
        error_score="raise",
    ).fit(X)
    assert search.best_params_ == {"preimage__alpha": 1e-8}
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] > -1e-3 > scores[1]


@every_method
@pytest.mark.parametrize("model", MODELS)
def test_a_pickled_model_denoises_alike_and_bits_repeat_on_any_number_of_threads(method: str, model: str) -> None:
    X, Z = rows(150), noisy(530)  # more than a tile
    one = fitted(method, X, model=model, n_jobs=1)
    first = both(one, Z)
    copy = pickle.loads(pickle.dumps(one))
    assert str(copy.preimage_report_) == str(one.preimage_report_)
    for other in (one, copy, fitted(method, X, model=model, n_jobs=2), fitted(method, X, model=model, n_jobs=1)):
        for left, right in zip(both(other, Z), first, strict=True):
            assert_array_equal(left, right)


@every_method
def test_a_row_alone_is_the_row_in_company(method: str) -> None:
    model, Z = fitted(method, rows(200), k=12), noisy(30)
    T = model.transform(Z)
    restored, denoised = both(model, Z)
    outlier = model.denoise(np.vstack([Z, [[1e6, 0.0, 0.0]]]))[:-1]
    for i in (0, 17, 29):
        assert_allclose(model.inverse_transform(T[i : i + 1])[0], restored[i], rtol=0, atol=1e-5)
        assert_allclose(model.denoise(Z[i : i + 1])[0], denoised[i], rtol=0, atol=1e-5)
    assert_allclose(outlier, denoised, rtol=0, atol=1e-3)


def test_a_far_row_in_company_changes_nothing_but_rounding() -> None:
    model, Z = fitted("ridge", rows(200), k=12), noisy(30)
    company = model.denoise(np.vstack([Z, [[1e6, 0.0, 0.0]]]))[:-1]
    assert_allclose(company, model.denoise(Z), rtol=0, atol=1e-8)


@every_method
def test_nothing_that_is_handed_in_changes(method: str) -> None:
    X, Z = rows(), noisy()
    X_before, Z_before = X.copy(), Z.copy()
    model = fitted(method, X, copy_X=False)
    T = model.transform(Z)
    T_before = T.copy()
    model.inverse_transform(T)
    model.denoise(Z)
    model.reconstruction_error(Z)
    for now, before in ((X, X_before), (Z, Z_before), (T, T_before), (model.transform(Z), T_before)):
        assert_array_equal(now, before)


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("method", ["auto", "regressor"])
def test_data_frames_go_in_and_arrays_come_back(method: str) -> None:
    frame = pd.DataFrame(rows(), columns=["a", "b", "c"], index=range(100, 150))
    plain = fitted(method, rows())
    model = KernelPCA(5, kernel=kernels()["rbf"], preimage=METHODS[method]).set_output(transform="pandas")
    T = model.fit_transform(frame)
    assert isinstance(T, pd.DataFrame)
    for found in (model.inverse_transform(T), model.denoise(frame)):
        assert isinstance(found, np.ndarray) and found.shape == (50, 3)
    assert_allclose(model.denoise(frame), plain.denoise(rows()), atol=1e-10)
    assert len(traverse(model, around=frame.iloc[:1])[1]) == 9


def test_gradient_says_where_the_input_was_no_start() -> None:
    X = rows()
    model = fitted("gradient", X, model="landmarks", k=None)
    found = model.denoise(np.vstack([noisy(), [[1e6, 0, 0]]]))
    assert (np.abs(found) < 10).all()
    assert "1 rows: no known row is near enough to the input to pull it" in str(model.preimage_report_)


def test_refit_forgets_the_report() -> None:
    model = fitted("fixed-point", rows())
    model.denoise(noisy())
    assert model.preimage_report_.rows == 8
    assert model.fit(rows()).preimage_report_.rows == 0


@pytest.mark.parametrize("method", ["auto", "ridge"])
def test_memory_is_asked_for_before_it_is_taken(method: str) -> None:
    X = rows(200)
    with (
        kpca.config(memory_limit="20MiB"),
        pytest.raises(InputError, match=r"of memory are needed here.*memory limit is 20 MiB.*learn from fewer rows"),
    ):
        fitted(method, X)
    model = fitted(method, X)
    with kpca.config(memory_limit="1MiB"), pytest.raises(InputError, match="transform fewer rows at a time"):
        model.denoise(X)


# ---- a walk along a component


@pytest.mark.parametrize("model", MODELS)
def test_traverse_walks_in_standard_deviations(model: str) -> None:
    X = rows(100)
    fast = fitted("auto", X, model=model, k=4)
    positions, found = traverse(fast, 2, 5)
    assert_array_equal(positions, [-2, -1, 0, 1, 2])
    scores = np.zeros((5, 4))
    scores[:, 2] = positions * np.std(fast.transform(X)[:, 2], ddof=1)
    assert_allclose(found, fast.inverse_transform(scores), rtol=0, atol=1e-5)
    around = traverse(fast, 0, [0.0, 0.5], around=X[3])[1]
    scores = np.vstack([fast.transform(X[3:4])] * 2)
    scores[1, 0] += 0.5 * np.sqrt(fast.explained_variance_[0])
    assert_allclose(around, fast.inverse_transform(scores), rtol=0, atol=1e-9)
    assert_array_equal(traverse(fast, np.int64(1), 3, span=0.5)[0], [-0.5, 0, 0.5])
    one, middle = traverse(fast, 0, 1)
    assert one.tolist() == [0.0] and middle.shape == (1, 3)


def test_traverse_of_the_linear_kernel_is_a_straight_line() -> None:
    X = rows()
    model = KernelPCA(2, preimage="auto").fit(X)
    positions, found = traverse(model, 1, 3)
    deviation = np.sqrt(model.explained_variance_[1])
    assert_allclose(found, X.mean(axis=0) + positions[:, None] * deviation * model.components_[1], atol=1e-12)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"component": 5}, "component must be a whole number from 0 to 4; got 5"),
        ({"component": -1}, "component must be a whole number"),
        ({"component": 1.0}, "component must be a whole number"),
        ({"component": True}, "component must be a whole number"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"steps": True}, "steps must be a number of points"),
        ({"steps": 2.5}, "steps must be a number of points"),
        ({"steps": []}, "steps must be a number of points"),
        ({"steps": "many"}, "steps must be a number of points"),
        ({"steps": [[1.0]]}, "steps must be a number of points"),
        ({"steps": [np.nan]}, "steps must be a number of points"),
        ({"span": np.inf}, "span a finite number; got 9 and inf"),
        ({"span": "wide"}, "span a finite number; got 9 and 'wide'"),
        ({"span": None}, "span a finite number"),
        ({"around": np.zeros((2, 3))}, "around must be one row of data; got 2"),
        ({"around": np.zeros(4)}, "4 features"),
        ({"around": [np.nan] * 3}, "X must be finite"),
    ],
)
def test_traverse_refuses_in_one_sentence(how: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        traverse(fitted("ridge", rows()), **how)
    assert words in str(caught.value) and "\n" not in str(caught.value)


# ---- the report


def reports() -> Iterator[tuple[str, str]]:
    yield "ridge", "ridge: as asked for"
    yield "fixed-point", "fixed-point: as asked for"
    yield "distance", "distance: as asked for"
    yield "gradient", "gradient: as asked for"
    yield "regressor", "KNeighborsRegressor: as asked for"
    yield "auto", "auto: rows looked for by fixed point and rows learned by ridge are mixed; by 10 held-out rows"


@pytest.mark.parametrize(("method", "words"), list(reports()))
def test_report_says_how_before_and_after(method: str, words: str) -> None:
    model, Z = fitted(method, rows()), noisy()
    before = model.preimage_report_
    assert str(before).startswith(words) and "\n" not in str(before)
    assert before.rows == 0 and before.gains is None and not before.fallbacks and not len(before.converged)
    model.denoise(Z)
    after = model.preimage_report_
    assert str(after).startswith(words + ("\n8 rows" if method != "auto" else ""))
    assert len(after.iterations) == len(after.converged) == after.rows == 8
    iterative = method in ("fixed-point", "gradient", "auto")
    assert bool(after.iterations.any()) == iterative and ("steps (median)" in str(after)) == iterative
    assert (after.gains is None) == (method == "regressor")
    model.inverse_transform(model.transform(Z[:3]))
    assert model.preimage_report_.rows == 3


def test_report_counts_fallbacks() -> None:
    model = fitted("fixed-point", rows())
    model.denoise(np.vstack([noisy(), [[1e6, 0, 0]], [[0, 1e6, 0]]]))
    report = model.preimage_report_
    assert_array_equal(np.flatnonzero(report.fallbacks[OUT_OF_REACH]), [8, 9])
    assert f"2 rows: {OUT_OF_REACH}" in str(report).split("\n")
    model.denoise(noisy())
    assert not model.preimage_report_.fallbacks and "rows:" not in str(model.preimage_report_)


def test_report_of_few_rows_and_of_other_kernels() -> None:
    few = fitted("auto", rows(12))
    assert "too few rows to hold some out" in few.preimage_report_.reason
    dots = fitted("auto", rows(), "polynomial")
    assert "looked for by descent" in dots.preimage_report_.reason
    line = KernelPCA(1, preimage=LinearRegression()).fit(rows())
    assert str(line.preimage_report_) == "LinearRegression: as asked for"


@pytest.mark.parametrize("method", ["fixed-point", "distance", "gradient"])
def test_a_memory_limit_is_kept_by_the_search(method: str) -> None:
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(3000, 4)), rng.normal(size=(600, 4))
    model = KernelPCA(10, kernel=RBF(0.3), preimage=method, tol=1e-3, n_jobs=2).fit(X)
    free = model.denoise(Z)
    with kpca.config(memory_limit="40MiB"):
        tracemalloc.start()
        try:
            kept = model.denoise(Z)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 40 * 2**20
    assert_allclose(kept, free, rtol=0, atol=0.02)
