"""scikit-learn's KernelPCA and ours, there and back: the same scores, signs included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_table import tuned
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from sklearn.decomposition import KernelPCA as Theirs
from sklearn.metrics.pairwise import laplacian_kernel

from kpca import InputError, KernelPCA, compress, kernels
from kpca.io.models import load, save

X = np.random.default_rng(0).normal(size=(40, 3)) + 1.0
NEW = np.random.default_rng(1).normal(size=(7, 3)) + 1.0
SHARED = ("linear", "poly", "rbf", "sigmoid", "cosine")  # by name
KERNELS = {name: {"kernel": name, **parameters} for name, parameters in tuned(*SHARED).items()}
OURS: dict[str, Any] = {
    "laplacian": "laplacian",
    "matern52": "matern52",
    "sum": kernels.RBF(0.3) + kernels.Linear(),
    "gamma per feature": kernels.RBF(gamma=(0.1, 0.2, 0.3)),
    "object": kernels.Polynomial(3, 0.2, 1.0),
}


def pairwise(x: Any, y: Any, power: int = 2) -> float:
    return float((1.0 + 0.1 * (x @ y)) ** power)


def vectorised(A: Any, B: Any) -> Any:
    return laplacian_kernel(A, B, gamma=0.2)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(
    "options", [{"n_components": 3}, {"n_components": 3, "fit_inverse_transform": True, "alpha": 0.1}, {}]
)
def test_both_ways_the_scores_are_the_same(name: str, options: dict[str, Any]) -> None:
    if name == "sigmoid" and not options:
        options = {"n_components": 2}  # others have no variance, or less
    theirs = Theirs(**KERNELS[name], **options).fit(X)
    ours = KernelPCA.from_sklearn(theirs)
    again = KernelPCA(**KERNELS[name], **options).fit(X)
    back = again.to_sklearn()
    k = min(ours.n_components_, 3)
    largest = np.abs(theirs.transform(NEW)).max()
    np.testing.assert_allclose(ours.transform(NEW)[:, :k], theirs.transform(NEW)[:, :k], atol=1e-10 * largest)
    np.testing.assert_allclose(back.transform(NEW)[:, :k], again.transform(NEW)[:, :k], atol=1e-10 * largest)
    np.testing.assert_allclose(back.transform(NEW)[:, :k], theirs.transform(NEW)[:, :k], atol=1e-7 * largest)
    np.testing.assert_array_equal(ours.eigenvalues_, theirs.eigenvalues_)
    assert ours.solver_ == "scikit-learn"
    if options.get("fit_inverse_transform"):
        scores = theirs.transform(NEW)
        np.testing.assert_allclose(ours.inverse_transform(scores), theirs.inverse_transform(scores), atol=1e-10)
        np.testing.assert_allclose(back.inverse_transform(scores), theirs.inverse_transform(scores), atol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_taken_over_is_a_whole_model(name: str, tmp_path: Any) -> None:
    theirs = Theirs(3, **KERNELS[name]).fit(X)
    ours, again = KernelPCA.from_sklearn(theirs), KernelPCA(3, **KERNELS[name]).fit(X)
    for attribute in ("explained_variance_", "explained_variance_ratio_", "information_ratio_"):
        np.testing.assert_allclose(getattr(ours, attribute), getattr(again, attribute), rtol=1e-6)
    assert (ours.residuals_ < 1e-6).all()
    low, high = ours.eigenvalue_bounds_.T
    assert (low <= again.eigenvalues_ * (1 + 1e-9)).all() and (again.eigenvalues_ <= high * (1 + 1e-9)).all()
    np.testing.assert_allclose(ours.score_samples(NEW), again.score_samples(NEW), rtol=1e-6)
    np.testing.assert_allclose(
        ours.reconstruction_error(NEW, "feature"), again.reconstruction_error(NEW, "feature"), atol=1e-8
    )
    assert str(ours.plan_)
    save(ours, tmp_path / "m.kpca")
    np.testing.assert_array_equal(load(tmp_path / "m.kpca").transform(NEW), ours.transform(NEW))


@pytest.mark.parametrize("name", OURS)
def test_kernels_that_scikit_learn_does_not_have_become_functions(name: str) -> None:
    ours = KernelPCA(3, kernel=OURS[name]).fit(X)
    np.testing.assert_allclose(ours.to_sklearn().transform(NEW), ours.transform(NEW), atol=1e-10)


def test_functions_travel_both_ways() -> None:
    theirs = Theirs(3, kernel=pairwise, kernel_params={"power": 3}).fit(X)
    ours = KernelPCA.from_sklearn(theirs)
    np.testing.assert_allclose(ours.transform(NEW), theirs.transform(NEW), atol=1e-10)
    np.testing.assert_allclose(ours.to_sklearn().transform(NEW), theirs.transform(NEW), atol=1e-10)
    ours = KernelPCA(3, kernel=vectorised).fit(X)
    np.testing.assert_allclose(ours.to_sklearn().transform(NEW), ours.transform(NEW), atol=1e-10)


@pytest.mark.parametrize("copy_X", [True, False])
def test_precomputed_kernels(copy_X: bool) -> None:
    K, L = (X @ X.T + 1.0) ** 2, (NEW @ X.T + 1.0) ** 2
    theirs = Theirs(3, kernel="precomputed", copy_X=copy_X).fit(K.copy())
    ours = KernelPCA.from_sklearn(theirs)
    np.testing.assert_allclose(ours.transform(L), theirs.transform(L), atol=1e-9)
    np.testing.assert_allclose(ours.X_fit_, K, rtol=1e-9)
    np.testing.assert_allclose(
        KernelPCA(3, kernel="precomputed").fit(K).to_sklearn().transform(L), theirs.transform(L), atol=1e-7
    )


@pytest.mark.parametrize("solver", ["dense", "arpack", "randomized"])
def test_every_solver_of_scikit_learn(solver: str) -> None:
    theirs = Theirs(4, kernel="rbf", eigen_solver=solver, random_state=0).fit(X)
    ours = KernelPCA.from_sklearn(theirs)
    np.testing.assert_allclose(ours.transform(NEW), theirs.transform(NEW), atol=1e-10)


def test_sparse_rows_float32_and_whole_numbers() -> None:
    rows = sparse.csr_array(np.where(X > 1, X, 0.0))
    ours = KernelPCA(2, kernel="rbf", gamma=0.2).fit(rows)
    np.testing.assert_allclose(ours.to_sklearn().transform(rows), ours.transform(rows), atol=1e-10)
    theirs = Theirs(2, kernel="rbf", gamma=0.2).fit(rows)
    np.testing.assert_allclose(KernelPCA.from_sklearn(theirs).transform(rows), theirs.transform(rows), atol=1e-10)
    single = X.astype(np.float32)
    theirs = Theirs(2, kernel="rbf", gamma=0.2).fit(single)
    ours = KernelPCA.from_sklearn(theirs)
    assert ours.transform(single).dtype == np.float32
    np.testing.assert_allclose(ours.transform(single), theirs.transform(single), atol=1e-5)
    whole = np.round(10 * X).astype(int)
    theirs = Theirs(2, kernel="rbf", gamma=1e-3).fit(whole)
    np.testing.assert_allclose(KernelPCA.from_sklearn(theirs).transform(whole), theirs.transform(whole), atol=1e-10)


def test_components_without_variance() -> None:
    rows = np.repeat(X[:3], 3, axis=0)
    theirs = Theirs(5, kernel="rbf").fit(rows)
    with np.errstate(all="ignore"):
        ours = KernelPCA.from_sklearn(theirs)
        np.testing.assert_allclose(ours.transform(NEW), theirs.transform(NEW), atol=1e-7)
        ours = KernelPCA(5, kernel="rbf").fit(rows)
        np.testing.assert_allclose(ours.to_sklearn().transform(NEW), ours.transform(NEW), atol=1e-7)


def test_shares_and_rules_become_numbers() -> None:
    ours = KernelPCA(0.8, kernel="rbf", gamma="median", eigen_solver="krylov").fit(X)
    made = ours.to_sklearn()
    assert made.n_components == ours.n_components_ and made.gamma == ours.gamma_ and made.eigen_solver == "auto"
    np.testing.assert_allclose(made.transform(NEW), ours.transform(NEW), atol=1e-10)


def test_names_of_columns_travel() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    theirs = Theirs(2).fit(frame)
    assert KernelPCA.from_sklearn(theirs).feature_names_in_.tolist() == ["a", "b", "c"]
    assert KernelPCA(2).fit(frame).to_sklearn().get_feature_names_out().tolist() == ["kernelpca0", "kernelpca1"]


def test_unfitted_models_are_parameters() -> None:
    theirs = Theirs(3, kernel="poly", degree=4, coef0=2, random_state=1, tol=1e-3)
    ours = KernelPCA.from_sklearn(theirs)
    assert not hasattr(ours, "eigenvalues_")
    assert ours.get_params().items() >= theirs.get_params().items()
    assert ours.to_sklearn().get_params() == theirs.get_params()
    made = KernelPCA(2, kernel=kernels.RBF(0.3)).to_sklearn()
    assert (made.kernel, made.gamma) == ("rbf", 0.3)
    np.testing.assert_allclose(
        made.fit(X).transform(NEW), KernelPCA(2, kernel="rbf", gamma=0.3).fit(X).transform(NEW), atol=1e-7
    )


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: KernelPCA(2, kernel="rbf", center=False).fit(X), "center=False"),
        (lambda: KernelPCA(2, kernel="rbf", approximation="nystroem").fit(X), "approximation"),
        (lambda: KernelPCA(2, kernel="rbf", approximation="rff"), "approximation"),
        (lambda: KernelPCA(2, kernel="rbf").fit(X, sample_weight=np.arange(40)), "weights"),
        (lambda: compress(KernelPCA(2, kernel="rbf").fit(X), 10), "compressed"),
        (lambda: KernelPCA(2, kernel="precomputed").fit(aslinearoperator(X @ X.T)), "LinearOperator"),
        (lambda: KernelPCA(0.5), "n_components and gamma must be numbers"),
        (lambda: KernelPCA(2, kernel="rbf", gamma="median"), "n_components and gamma must be numbers"),
        (lambda: KernelPCA(2, kernel="laplacian"), "'laplacian': fit the model first"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_has_no_counterpart_is_refused(make: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        make().to_sklearn()


def test_only_kernel_pca_is_taken_over() -> None:
    for other in (None, KernelPCA(2), Theirs):
        with pytest.raises(InputError, match="from_sklearn needs a KernelPCA of sklearn"):
            KernelPCA.from_sklearn(other)
