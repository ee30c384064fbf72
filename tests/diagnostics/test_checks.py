"""`kpca.diagnostics.check`: the report, good models, what is refused, what must not change it."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kpca
from kpca import IncrementalKernelPCA, InputError, KernelPCA, compress, diagnostics
from kpca.diagnostics import Finding, Report
from kpca.diagnostics.checks import LOOKS

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.standard_normal((90, 4)) * [3.0, 1.5, 1.0, 0.5]


def fitted(X, n_components=3, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return KernelPCA(n_components, **parameters).fit(X)


GOOD = {
    "digits": lambda: load_digits().data[::2],
    "iris": lambda: load_iris().data,
    "wine": lambda: StandardScaler().fit_transform(load_wine().data),
    "breast cancer": lambda: StandardScaler().fit_transform(load_breast_cancer().data),
    "moons": lambda: make_moons(300, noise=0.05, random_state=0)[0],
    "clusters": lambda: make_blobs(400, 5, centers=4, random_state=0)[0],
}


@pytest.mark.parametrize("gamma", ["median", "scale"])
@pytest.mark.parametrize("name", GOOD)
def test_good_models_have_no_problem(name, gamma):
    X = GOOD[name]()
    order = np.random.default_rng(0).permutation(len(X))  # some files are sorted by class
    X, new = X[order[: -len(X) // 5]], X[order[-len(X) // 5 :]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KernelPCA(3, kernel="rbf", gamma=gamma).fit(X)
    report = diagnostics.check(model, new=new, resamples=5)
    grave = {finding.kind for finding in report if finding.severity != "note"}
    assert grave <= {"unstable"} and all(finding.severity != "problem" for finding in report)
    assert not {"narrow", "overfitting", "drift", "scale", "duplicates"} & {finding.kind for finding in report}


def test_everything_is_looked_at_or_said_why_not():
    X = np.abs(ROWS)
    for kernel in kpca.kernels.NAMES:
        report = diagnostics.check(fitted(X, kernel=kernel), new=X[:40] + 0.1, resamples=2)
        assert set(LOOKS) <= {*report.measured, *report.skipped}
        assert not set(report.measured) & set(report.skipped)
        for kind, reason in report.skipped.items():
            assert kind in LOOKS and reason[0].islower() and not reason.endswith(".")


def test_report_can_be_read_and_stored():
    X = np.vstack([ROWS, ROWS]) * [1e4, 1, 1, 1]
    report = diagnostics.check(fitted(X, kernel="rbf", gamma=1e3), resamples=2)
    assert len(report) == len(report.findings) > 3 and bool(report)
    assert tuple(report) == report.findings
    order = [["problem", "warning", "note"].index(finding.severity) for finding in report]
    assert order == sorted(order) and {0, 1} <= set(order)
    assert json.loads(json.dumps(report.to_dicts()))[0]["kind"] == report.findings[0].kind
    text = str(report)
    for finding in report:
        assert finding.sentence in text and finding.remedy in text and finding.kind in report
        assert finding.sentence[0].isupper() and finding.sentence.endswith(".") and finding.remedy.endswith(".")
        assert report.measured[finding.kind] == finding.number
    assert "no_such_kind" not in report
    with pytest.raises(AttributeError):
        report.findings[0].number = 1.0


def test_empty_report_is_false():
    report = Report((), {"narrow": 0.1}, {"drift": "no new rows were given"})
    assert not report and "Nothing is the matter" in str(report) and "no new rows" in str(report)
    assert Finding("scale", 1.0, "S.", "R.", "note") in Report((Finding("scale", 1.0, "S.", "R.", "note"),), {}, {})


@pytest.mark.parametrize(
    "form", [np.float32, sparse.csr_matrix, pd.DataFrame, lambda X: pl.DataFrame(X, schema=list("abcd"))]
)
def test_any_form_of_rows(form):
    X = ROWS.astype(np.float32) if form is np.float32 else form(ROWS)
    plain = diagnostics.check(fitted(ROWS, kernel="rbf", gamma=0.1), resamples=3)
    report = diagnostics.check(fitted(X, kernel="rbf", gamma=0.1), X, resamples=3)
    assert [finding.kind for finding in report] == [finding.kind for finding in plain]
    for kind, number in plain.measured.items():
        assert_allclose(report.measured[kind], number, rtol=1e-3, atol=1e-5)


def test_models_that_keep_no_rows():
    X = ROWS
    models = [
        fitted(X, kernel="rbf", approximation="nystroem"),
        fitted(X, kernel="rbf", approximation="rff"),
        IncrementalKernelPCA(3, kernel="rbf").fit(X),
        compress(fitted(X, kernel="rbf"), 20),
    ]
    for model in models:
        bare = diagnostics.check(model, resamples=2)
        assert "give them as X" in bare.skipped["narrow"] and "equal_eigenvalues" in bare.measured
        full = diagnostics.check(model, X, new=X + 5.0, resamples=2)
        assert {"narrow", "linear", "unstable", "overfitting"} <= set(full.measured) and "drift" in full


def test_rows_in_a_file(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, ROWS)
    model = KernelPCA(3, kernel="rbf", approximation="nystroem").fit(str(path))
    report = diagnostics.check(model, str(path), new=str(path), resamples=2)
    assert report.measured == diagnostics.check(model, ROWS, new=ROWS, resamples=2).measured


@pytest.mark.parametrize("n", [2, 3, 5, 12])
def test_few_rows(n):
    for kernel in ("linear", "rbf", "poly", "laplacian"):
        report = diagnostics.check(fitted(ROWS[:n], 2, kernel=kernel), new=ROWS[n : n + 6], resamples=2)
        assert all(np.isfinite(number) for number in report.measured.values())


@pytest.mark.parametrize(
    "X",
    [
        np.ones((20, 3)),
        np.column_stack([ROWS[:, 0], np.ones(90)]),
        np.repeat(ROWS[:3], 10, axis=0),
        ROWS + 1e6,
        ROWS[:, :1],
        ROWS * 1e-150,
    ],
)
def test_hostile_rows(X):
    for kernel in ("linear", "rbf", "laplacian", "exponential"):
        report = diagnostics.check(fitted(X, 2, kernel=kernel), new=X + 0.0, resamples=2)
        assert all(np.isfinite(number) for number in report.measured.values()), report.measured


@pytest.mark.parametrize("gamma", [1e-300, 1e-30, 1e30, 1e300])
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_absurd_bandwidths(kernel, gamma):
    report = diagnostics.check(fitted(ROWS, kernel=kernel, gamma=gamma), resamples=2)
    assert ("narrow" in report) == (gamma > 1)
    if gamma == 1e-30:
        assert ("linear" if kernel == "rbf" else "flat") in report


def test_the_same_seed_gives_the_same_report_and_settings_are_left_alone(tmp_path):
    model = fitted(ROWS, kernel="rbf")
    seen = []
    with kpca.config(checkpoint=tmp_path / "fit.ckpt", progress=seen.append):
        one = diagnostics.check(model, new=ROWS + 0.1, random_state=3)
    assert not seen and not list(tmp_path.iterdir())
    assert one == diagnostics.check(model, new=ROWS + 0.1, random_state=3)
    with kpca.config(threads=1):
        assert one == diagnostics.check(model, new=ROWS + 0.1, random_state=3)
    before = dict(vars(model))
    diagnostics.check(model)
    assert vars(model).keys() == before.keys()


def test_what_is_refused():
    model = fitted(ROWS, kernel="rbf")
    with pytest.raises(InputError, match="must be a fitted KernelPCA"):
        diagnostics.check(make_pipeline(StandardScaler(), KernelPCA()).fit(ROWS))
    with pytest.raises(NotFittedError):
        diagnostics.check(KernelPCA())
    with pytest.raises(InputError, match="resamples"):
        diagnostics.check(model, resamples=0)
    with pytest.raises(InputError, match="NaN"):
        diagnostics.check(model, new=np.full((5, 4), np.nan))
    with pytest.raises(InputError, match="features"):
        diagnostics.check(model, ROWS[:, :2])
    with pytest.raises(InputError, match="precomputed"):
        diagnostics.check(fitted(ROWS @ ROWS.T, kernel="precomputed"), ROWS)
    weighted = KernelPCA(2, kernel="rbf").fit(ROWS, sample_weight=np.r_[np.zeros(10), np.ones(80)])
    with pytest.raises(InputError, match="80 rows of positive weight"):
        diagnostics.check(weighted, ROWS)
    assert diagnostics.check(weighted, resamples=2).measured


@settings(max_examples=8)
@given(st.integers(0, 1000), st.floats(-100, 100), st.sampled_from(["rbf", "matern32", "laplacian"]))
def test_order_and_shift_of_rows_change_no_figure(seed, shift, kernel):
    random = np.random.default_rng(seed)
    X = random.standard_normal((60, 3)) * [2.0, 1.0, 0.5]
    kinds = ["narrow", "nearest_similarity", "linear", "linear_scores", "scale", "duplicates", "equal_eigenvalues"]
    plain = diagnostics.check(fitted(X, kernel=kernel, gamma=0.3), resamples=1).measured
    for other in (X[random.permutation(60)], X + shift, -X):
        again = diagnostics.check(fitted(other, kernel=kernel, gamma=0.3), resamples=1).measured
        for kind in kinds:
            assert_allclose(again[kind], plain[kind], rtol=1e-6, atol=1e-8)
