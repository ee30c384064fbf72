"""Bandwidths that are too small and too large are named as what they are, for every kernel that has one."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import reference
from kernel_table import WITH_BANDWIDTH
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from kpca import KernelPCA, Nystroem, RandomFeatures, diagnostics, kernels
from kpca.diagnostics.bandwidth import left_by_procrustes, usual_factor
from kpca.diagnostics.case import Case
from kpca.diagnostics.checks import LOOKS
from kpca.diagnostics.report import NotLooked
from kpca.kernels.base import has_bandwidth, widened
from kpca.spectrum.result import unrelated_ratio

KERNELS = list(WITH_BANDWIDTH)
LIMIT = dict.fromkeys(KERNELS, "linear") | dict.fromkeys(["laplacian", "exponential", "matern12", "chi2"], "flat")
ABOUT_BANDWIDTH = ["narrow", "linear", "flat"]


def rows_for(kernel, n, d=4, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, d)) * 1.5 ** -np.arange(d)
    return np.abs(X) if kernel == "chi2" else X


def quietly(X, n_components=3, weights=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return KernelPCA(n_components, tol=1e-3, **parameters).fit(X, sample_weight=weights)


def taken(kind, case):
    """A look, or why it could not be taken."""
    try:
        return LOOKS[kind](case)
    except NotLooked as reason:
        return str(reason)


def look(kind, model, X=None, new=None, seed=0):
    return taken(kind, Case(model, X, new, 3, seed))


def named(model, X=None, kinds=ABOUT_BANDWIDTH):
    case = Case(model, X, None, 3, 0)
    return [kind for kind in kinds if getattr(taken(kind, case), "severity", None) is not None]


@pytest.mark.parametrize("n", [50, 200, 1000])
@pytest.mark.parametrize("kernel", KERNELS)
def test_extremes_are_named(kernel, n):
    X = rows_for(kernel, n)
    small = quietly(X, kernel=kernel, gamma=1e8)
    found = look("narrow", small)
    assert found.severity == "problem"
    assert_allclose(found.number, 1.0, atol=0.02)
    assert named(small, kinds=ABOUT_BANDWIDTH if n < 1000 else ["linear"]) == (["narrow"] if n < 1000 else [])
    assert named(quietly(X, kernel=kernel, gamma=1e-8)) == [LIMIT[kernel]]
    if n < 1000:
        assert named(quietly(X, kernel=kernel, gamma=1.0)) == []


@pytest.mark.parametrize(
    ("kernel", "n"), [("rbf", 5000), ("exponential", 5000), pytest.param("rbf", 20_000, marks=pytest.mark.slow)]
)
def test_extremes_are_named_for_many_rows(kernel, n):
    X = rows_for(kernel, n)
    for gamma, kind in [(1e8, "narrow"), (1e-8, LIMIT[kernel])]:
        model = quietly(X, kernel=kernel, gamma=gamma)
        found = look(kind, model)
        assert found.severity is not None
        estimated = "estimated on 1,000 rows" in found.sentence
        assert estimated == (kind != "narrow")  # the fit has told the ratio of all rows


@pytest.mark.parametrize("shape", [(50, 500), (50, 5000), (500, 50), (12, 3), (300, 300)])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", "exponential", "matern32", "matern52", "rational_quadratic"])
def test_noise_of_any_dimension_is_not_a_matter_of_bandwidth(kernel, shape):
    X = np.random.default_rng(1).standard_normal(shape)
    for gamma in [None, "scale"] if kernel == "laplacian" else [None, "scale", "median"]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = KernelPCA(2, kernel=kernel, gamma=gamma).fit(X)
        assert "narrow" not in named(model, kinds=["narrow"])


def test_ratio_alone_would_blame_the_bandwidth_for_noise():
    X = np.random.default_rng(0).standard_normal((50, 5000))
    found = look("narrow", quietly(X, kernel="rbf", gamma="median"))
    assert found.number > 0.99 and found.severity is None and found.also["nearest_similarity"] > 0.5


@pytest.mark.parametrize("weighted", [False, True])
def test_ratio_is_that_of_the_whole_matrix(weighted):
    X = rows_for("rbf", 80)
    w = np.random.default_rng(2).uniform(0.2, 3.0, 80) if weighted else np.ones(80)
    model = KernelPCA(3, kernel="rbf", gamma=0.7).fit(X, sample_weight=w)
    truth = reference.participation(kernels.RBF(0.7).block(X, X), w)
    limit = reference.participation(np.eye(80), w)
    assert_allclose(unrelated_ratio(w), limit)
    assert_allclose(look("narrow", model).number, truth / limit, rtol=1e-6)


def test_duplicates_and_weights_do_not_hide_a_small_bandwidth():
    X = rows_for("rbf", 60)
    for model in (
        quietly(np.vstack([X, X, X[:30]]), kernel="rbf", gamma=1e6),
        quietly(X, weights=np.random.default_rng(0).uniform(0.1, 5, 60), kernel="rbf", gamma=1e6),
    ):
        found = look("narrow", model)
        assert found.severity is not None and abs(found.number - 1) < 1e-6


def test_without_the_fits_own_figures_it_is_the_same():
    X = rows_for("rbf", 300)
    for approximation in (Nystroem(60), RandomFeatures(60)):
        for gamma, kinds in [(1e6, ["narrow"]), (1e-6, ["linear"]), (0.5, [])]:
            model = quietly(X, kernel="rbf", gamma=gamma, approximation=approximation)
            assert named(model, X) == kinds
            assert look("narrow", model).startswith("the model keeps no training rows")
    uncentred = quietly(X, kernel="rbf", gamma=1e6, center=False)
    assert named(uncentred) == ["narrow"]


@pytest.mark.parametrize("kernel", [kernels.RBF(1e6) * kernels.RBF(0.1), 3 * kernels.Laplacian(1e6)])
def test_composites_and_unknown_kernels_are_seen_too(kernel):
    X = rows_for("rbf", 60)
    assert named(quietly(X, kernel=kernel)) == ["narrow"]
    assert named(quietly(kernel.block(X, X), kernel="precomputed")) == ["narrow"]
    assert named(quietly(X, kernel=kernel.block)) == ["narrow"]
    assert named(quietly(X, kernel="cosine")) == []


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"kernel": "poly", "degree": 3, "coef0": 1e5}, True),
        ({"kernel": "poly", "degree": 1}, True),
        ({"kernel": "poly", "degree": 3}, False),
        ({"kernel": "sigmoid", "gamma": 1e-5, "coef0": 0.5}, True),
        ({"kernel": "sigmoid", "gamma": 1.0, "coef0": 0.5}, False),
        ({"kernel": "cosine"}, False),
        ({"kernel": kernels.RBF((1e-9, 1e-8, 1e-9, 1e-8))}, True),
        ({"kernel": kernels.RBF((0.1, 1.0, 0.1, 1.0))}, False),
    ],
)
def test_linear_pca_in_disguise(parameters, expected):
    model = quietly(rows_for("rbf", 150), **parameters)
    assert ("linear" in named(model)) == expected


def test_alignment_is_that_of_the_whole_matrix():
    X = rows_for("rbf", 70) + 5.0
    for kernel in (kernels.RBF(0.2), kernels.Polynomial(2, 0.3, 1.0), kernels.Exponential(2.0)):
        found = look("linear", quietly(X, kernel=kernel))
        assert_allclose(found.number, reference.alignment(kernel.block(X, X), X @ X.T), rtol=1e-8)
    found = look("flat", quietly(X, kernel=kernels.Exponential(2.0)))
    assert_allclose(found.number, reference.alignment(kernels.Exponential(2.0).block(X, X), -cdist(X, X)), rtol=1e-3)


@pytest.mark.parametrize("d", [1, 2])
def test_what_is_called_linear_in_few_dimensions_has_the_scores_of_pca(d):
    X = rows_for("rbf", 200, d)
    for gamma in 10.0 ** np.arange(-6, 1):
        model = quietly(X, kernel="rbf", gamma=gamma)
        found = look("linear", model)
        scores, pca = model.transform(X)[:, :d], KernelPCA(d).fit_transform(X)
        size = (scores**2).sum() ** 0.5 / (pca**2).sum() ** 0.5
        gap = min(np.linalg.norm(s * scores[:, 0] / size - pca[:, 0]) for s in (1, -1)) / np.linalg.norm(pca[:, 0])
        if found.severity is not None:
            assert gap < 0.1
        if found.number < 0.9:
            assert found.severity is None


def test_procrustes_ignores_rotation_and_scale_and_nothing_else():
    random = np.random.default_rng(0)
    T, Q = random.standard_normal((50, 3)), np.linalg.qr(random.standard_normal((3, 3)))[0]
    assert left_by_procrustes(T, 7.0 * T @ Q) < 1e-12
    assert left_by_procrustes(T, T[:, :2]) > 0.1
    assert left_by_procrustes(T, random.standard_normal((50, 3))) > 0.5


def test_remedies_work():
    X = load_digits().data[::3]
    report = diagnostics.check(quietly(X, kernel="rbf"), resamples=2)
    assert "gamma about 0.0002" in report.findings[0].remedy and report.findings[0].kind == "narrow"
    assert named(quietly(X, kernel="rbf", gamma=0.0002), kinds=["narrow", "flat"]) == []
    for kernel in KERNELS:
        rows = rows_for(kernel, 100)
        for gamma in (1e8, 1e-8):
            start = quietly(rows, kernel=kernel, gamma=gamma).kernel_
            better = widened(start, usual_factor(start, rows))
            K = better.block(rows, rows)[np.triu_indices(100, 1)]
            assert_allclose(np.median(K), np.exp(-0.5), rtol=0.1)
            assert "narrow" not in named(quietly(rows, kernel=better))
    named_exponential = look("flat", quietly(rows_for("rbf", 100), kernel="exponential", gamma=1e-8))
    assert "-|x - y|" in named_exponential.sentence and "gamma about" in named_exponential.remedy
    as_object = look("flat", quietly(rows_for("rbf", 100), kernel=kernels.Exponential(1e6)))
    assert "length_scale about" in as_object.remedy


def test_widening_divides_distances():
    X = rows_for("chi2", 20)
    for name in KERNELS:
        kernel = kernels.resolve(name, X, gamma=0.3)
        wider = widened(kernel, 3.0)
        assert_allclose(wider.block(X, X), kernel.block(X / 3.0, X / 3.0), rtol=1e-12)
    assert widened(kernels.Cosine(), 2.0) is None and not has_bandwidth(kernels.Cosine())
    assert widened(kernels.RBF(1e-299), 1e3) is None and has_bandwidth(kernels.RBF(1e-299))
    both = widened(2.0 * (kernels.RBF(1.0) + kernels.Linear()), 2.0)
    assert both == 2.0 * (kernels.RBF(0.25) + kernels.Linear())


# -- what `fit` itself says ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("approximation", [None, "nystroem", "rff"])
def test_fit_warns_once_of_a_bandwidth_that_is_clearly_too_small(kernel, approximation):
    if approximation is not None:
        approximation = {"nystroem": Nystroem(50), "rff": RandomFeatures(50)}[approximation]
    if kernel == "chi2" and isinstance(approximation, RandomFeatures):
        pytest.skip("There are no random features of this kernel.")
    X = rows_for(kernel, 300)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        KernelPCA(3, kernel=kernel, gamma=1e8, approximation=approximation).fit(X)
    texts = [str(one.message) for one in caught if "bandwidth" in str(one.message)]
    assert len(texts) == 1 and "wider" in texts[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelPCA(3, kernel=kernel, gamma=0.5, approximation=approximation).fit(X)


@pytest.mark.parametrize("approximation", [Nystroem(100), RandomFeatures(100)])
def test_fit_of_noise_by_features_does_not_nag(approximation):
    X = np.random.default_rng(0).standard_normal((400, 1000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelPCA(3, kernel="rbf", approximation=approximation).fit(X)


def test_fit_says_nothing_of_kernels_without_bandwidth():
    X = np.eye(40) + 1e-3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kernel in ("linear", "cosine", "poly"):
            KernelPCA(3, kernel=kernel).fit(X)
        KernelPCA(3, kernel="precomputed").fit(np.eye(40))
