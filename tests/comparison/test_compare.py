"""kpca.compare: every method on the same rows, what is measured, and what happens when one cannot."""

from __future__ import annotations

import doctest
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import pdist
from scipy.stats import pearsonr, spearmanr
from sklearn.base import BaseEstimator
from sklearn.decomposition import NMF, PCA, TruncatedSVD
from sklearn.manifold import MDS, TSNE, Isomap, trustworthiness
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from threadpoolctl import threadpool_info

import kpca
from kpca import InputError
from kpca.comparison import NAMES, Comparison, methods, runner
from kpca.comparison import runner as measuring

FAST = ["PCA", "incremental PCA", "randomised PCA", "kernel PCA", "MDS", "Isomap", "t-SNE"]  # all but UMAP
LINEAR = FAST[:3]


def rows(n: int = 60, d: int = 5, seed: int = 0) -> NDArray[Any]:
    """Two clusters that overlap a little."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[: n // 2, 0] += 3.0
    return X


def halves(n: int = 60) -> NDArray[Any]:
    return (np.arange(n) < n // 2).astype(int)


class Fixed(BaseEstimator):  # type: ignore[misc]
    """An estimator that gives back what it was told to, or raises it; it counts its calls for all its clones."""

    calls = 0

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        type(self).calls += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        if callable(self.answer):
            return self.answer(X)
        return self.answer


# -- what is measured -------------------------------------------------------------------------------------------------


def test_measures_are_those_of_the_definitions() -> None:
    X, y = rows(), halves()
    E = np.random.default_rng(1).normal(size=(60, 2)) + X[:, :2]
    found = kpca.compare(X, np.column_stack([y, X[:, 1]]), methods={"mine": Fixed(E)}, n_neighbors=7)
    row = found["mine"]
    assert row.trustworthiness == pytest.approx(trustworthiness(X, E, n_neighbors=7), abs=1e-12)
    assert row.continuity == pytest.approx(trustworthiness(E, X, n_neighbors=7), abs=1e-12)
    assert row.distance_correlation == pytest.approx(pearsonr(pdist(X), pdist(E)).statistic, abs=1e-12)
    assert row.rank_correlation == pytest.approx(spearmanr(pdist(X), pdist(E)).statistic, abs=1e-12)
    assert found.targets == (("y0", "accuracy"), ("y1", "R2"))
    guessed = cross_val_predict(KNeighborsClassifier(7), E, y, cv=StratifiedKFold(5, shuffle=True, random_state=0))
    assert row.knn[0] == pytest.approx(np.mean(guessed == y))
    guessed = cross_val_predict(KNeighborsRegressor(7), E, X[:, 1], cv=KFold(5, shuffle=True, random_state=0))
    assert row.knn[1] == pytest.approx(1 - np.sum((guessed - X[:, 1]) ** 2) / np.sum((X[:, 1] - X[:, 1].mean()) ** 2))


def test_the_rows_themselves_keep_everything() -> None:
    X = rows(40)
    row = kpca.compare(X, methods={"all": Fixed(3.0 * X + 7.0)})["all"]
    figures = [row.trustworthiness, row.continuity, row.distance_correlation, row.rank_correlation]
    np.testing.assert_allclose(figures, 1.0, atol=1e-12)


def test_trustworthiness_and_continuity_see_opposite_faults() -> None:
    """Two sheets laid on each other bring strangers together; a sheet that is torn takes neighbours apart."""
    rng = np.random.default_rng(0)
    flat = rng.uniform(size=(200, 2))
    sheets = np.column_stack([flat, 5.0 * (np.arange(200) % 2)])
    folded = kpca.compare(sheets, methods={"folded": Fixed(flat)})["folded"]
    torn = np.column_stack([flat[:, 0] + 5.0 * (flat[:, 0] > 0.5), flat[:, 1]])
    tearing = kpca.compare(flat, methods={"torn": Fixed(torn)})["torn"]
    assert folded.trustworthiness and folded.continuity and tearing.trustworthiness and tearing.continuity
    assert folded.trustworthiness < folded.continuity - 0.1
    assert tearing.continuity < tearing.trustworthiness - 0.01


def test_quality_of_many_rows_is_that_of_a_fixed_sample() -> None:
    X = rows(300)
    one, two = (kpca.compare(X, X[:, 0], methods=["PCA"], quality_rows=100, random_state=3) for _ in range(2))
    assert one.quality_rows == 100 and one.shape == (300, 5)
    assert one.to_dicts()[0]["trustworthiness"] == two.to_dicts()[0]["trustworthiness"]
    assert one["PCA"].embedding is not None and one["PCA"].embedding.shape == (300, 2)
    assert "100 of the 300 rows" in str(one)
    whole = kpca.compare(X, methods=["PCA"])
    assert whole["PCA"].trustworthiness == pytest.approx(one["PCA"].trustworthiness, abs=0.15)
    assert whole["PCA"].trustworthiness != one["PCA"].trustworthiness
    assert "all 300 rows" in str(whole)


def test_correlations_of_many_pairs_are_those_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows(80)
    exact = kpca.compare(X, methods=["PCA"])
    monkeypatch.setattr("kpca.comparison.result._PAIRS", 2000)
    some = kpca.compare(X, methods=["PCA"])
    assert (exact.quality_pairs, some.quality_pairs) == (3160, 2000)
    assert some["PCA"].distance_correlation == pytest.approx(exact["PCA"].distance_correlation, abs=0.03)


# -- the methods ------------------------------------------------------------------------------------------------------


def test_all_methods_with_names_but_umap() -> None:
    X, y = rows(), halves()
    found = kpca.compare(X, y, methods=FAST)
    assert [row.name for row in found] == FAST and len(found) == 7
    for row in found:
        assert row.outcome == "done" and row.error is None, row
        assert row.embedding is not None and row.embedding.shape == (60, 2)
        assert row.seconds is not None and row.seconds > 0
        assert row.trustworthiness is not None and 0.6 < row.trustworthiness <= 1
        assert row.knn[0] is not None and row.knn[0] > 0.7
    assert [row.name for row in found if not row.places_new_rows] == ["MDS", "t-SNE"]


def test_methods_are_the_ones_of_the_libraries() -> None:
    X = rows(90)
    found = kpca.compare(X, methods=FAST, n_neighbors=8, random_state=4)
    truth = {
        "PCA": PCA(2).fit_transform(X),
        "kernel PCA": kpca.KernelPCA(2, kernel="rbf", gamma="median", random_state=4).fit_transform(X),
        "Isomap": Isomap(n_components=2, n_neighbors=8).fit_transform(X),
    }
    for name, embedding in truth.items():
        np.testing.assert_allclose(found[name].embedding, embedding, atol=1e-8, err_msg=name)
    np.testing.assert_allclose(found["randomised PCA"].embedding, truth["PCA"], atol=1e-6)
    assert stress(X, found["MDS"].embedding) <= min(
        stress(X, MDS(2, n_init=1, init="random", random_state=seed).fit_transform(X)) for seed in range(3)
    )
    # t-SNE is chaotic: the same seed gives the same map only on the same number of threads
    with runner._threads(next(method for method in methods._METHODS if method.name == "t-SNE")):
        assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"} <= {1}
        map_ = TSNE(random_state=4, perplexity=89 / 3).fit_transform(X)
    np.testing.assert_array_equal(found["t-SNE"].embedding, map_)


def stress(X: NDArray[Any], E: Any) -> float:
    return float(np.sum((pdist(X) - pdist(E)) ** 2))


def test_repeats_to_the_bit_and_leaves_the_global_generator_alone() -> None:
    X = rows(230)  # more than 200: Isomap then starts from random numbers of the global generator
    np.random.seed(5)  # noqa: NPY002
    one = kpca.compare(X, X[:, :2], methods=FAST)
    after = np.random.random()  # noqa: NPY002
    np.random.seed(5)  # noqa: NPY002
    assert after == np.random.random()  # noqa: NPY002
    two = kpca.compare(X, X[:, :2], methods=FAST)
    for first, second in zip(one, two, strict=True):
        np.testing.assert_array_equal(first.embedding, second.embedding, err_msg=first.name)
    for first, second in zip(one.to_dicts(), two.to_dicts(), strict=True):
        same = {"seconds": 0, "peak_bytes": 0}
        assert first | same == second | same


@pytest.mark.slow
def test_umap_and_all_by_default() -> None:
    pytest.importorskip("umap", reason="UMAP is compared where umap-learn is installed: pip install 'kpca[compare]'.")
    X, y = rows(), halves()
    found = kpca.compare(X, y)
    assert [row.name for row in found] == [*NAMES] == [*FAST, "UMAP"]
    row = found["umap"]
    assert row.outcome == "done" and row.places_new_rows and row.notes == (), row.notes
    assert row.trustworthiness is not None and row.trustworthiness > 0.7
    np.testing.assert_array_equal(kpca.compare(X, methods=["UMAP"])["UMAP"].embedding, row.embedding)
    few = kpca.compare(X[:4], methods=["umap"], n_neighbors=1)["umap"]
    assert few.outcome == "done" and any("spectral start" in note for note in few.notes)
    assert any("2 neighbours" in note for note in few.notes)


def test_methods_are_warmed_up_before_they_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is loaded or compiled at a first call is not charged; own estimators are called once and no more."""
    events: list[str] = []
    measure = runner.measure
    monkeypatch.setattr(runner, "measure", lambda call: (events.append("measured"), measure(call))[1])
    monkeypatch.setattr(runner, "_warmed_up", lambda build, *kind: events.append(f"{build.__name__} {kind}"))
    Fixed.calls = 0
    kpca.compare(rows(), methods=["pca", ("mine", Fixed(rows()[:, :2]))])
    assert events == ["_pca (False, False)", "measured", "measured"] and Fixed.calls == 1


@pytest.mark.parametrize("absence", ["absent", "another library", "broken"])
def test_without_umap(monkeypatch: pytest.MonkeyPatch, absence: str) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise ImportError("numba needs another NumPy")

    stand_in = {"absent": None, "another library": sys, "broken": Broken()}[absence]
    monkeypatch.setitem(sys.modules, "umap", stand_in)
    reason = "not installed" if absence == "absent" else "cannot be loaded"
    with pytest.raises(InputError, match=rf"'UMAP', which .*{reason}.*: pip install 'kpca\[compare\]'"):
        kpca.compare(rows(), methods=["pca", "umap"])
    found = kpca.compare(rows(20))
    assert found["UMAP"].outcome == "not installed" and reason in str(found["UMAP"].error)
    assert "pip install 'kpca[compare]'" in str(found)
    assert all(row.outcome == "done" for row in found if row.name != "UMAP")


@pytest.mark.parametrize("spelling", ["kernel PCA", "kernel_pca", "Kernel-PCA", "KERNELPCA"])
def test_names_in_any_spelling(spelling: str) -> None:
    found = kpca.compare(rows(20), methods=[spelling, "randomized_pca"])
    assert [row.name for row in found] == ["kernel PCA", "randomised PCA"]
    assert found[spelling].name == "kernel PCA" and found["Randomized PCA"].name == "randomised PCA"


def test_own_estimators_beside_named_ones() -> None:
    X = np.abs(rows())
    mine = NMF(3, init="nndsvd")
    found = kpca.compare(X, methods=["pca", ("parts", mine), ("PCA of three", PCA(3))])
    assert [row.name for row in found] == ["PCA", "parts", "PCA of three"]
    assert found["parts"].embedding is not None and found["parts"].embedding.shape == (60, 3)
    assert not hasattr(mine, "components_")  # a copy was fitted
    poly = {"kernel PCA": kpca.KernelPCA(2, kernel="poly")}
    np.testing.assert_array_equal(
        kpca.compare(X, methods=poly)["kernel PCA"].embedding, poly["kernel PCA"].fit_transform(X)
    )


def test_own_estimator_gets_the_rows_as_they_are() -> None:
    """A kernel that depends on the origin must not be given rows that were moved."""
    X = rows() + 1e5
    found = kpca.compare(X, methods=["pca", ("as they are", Fixed(lambda given: given[:, :2]))])
    np.testing.assert_array_equal(found["as they are"].embedding, X[:, :2])
    assert found["PCA"].embedding is not None and abs(found["PCA"].embedding).max() < 20


# -- one fails, the others do not -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ValueError("this  and\nthat"), "failed: ValueError: this and that"),
        (MemoryError("too much"), "failed: MemoryError: too much"),
        (np.full((60, 2), np.nan), "NaN or infinity"),
        (np.zeros((59, 2)), r"got shape (59, 2)"),
        (np.zeros(60), r"got shape (60,)"),
        (np.zeros((60, 0)), r"got shape (60, 0)"),
        ([["a", "b"]] * 60, "could not convert"),
    ],
)
def test_a_failure_is_told_in_its_row(answer: Any, message: str) -> None:
    found = kpca.compare(rows(), halves(), methods=["pca", ("bad", Fixed(answer)), "kernel_pca"])
    bad = found["bad"]
    assert bad.outcome == "failed" and bad.embedding is None and bad.knn == ()
    assert bad.error is not None and message in bad.error and "\n" not in bad.error
    assert bad.error in str(found)
    assert [row.outcome for row in found] == ["done", "failed", "done"]
    assert found.best("knn").name != "bad"
    json.dumps(found.to_dicts(), allow_nan=False)


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(1)])
def test_an_interruption_is_no_failure(stop: BaseException) -> None:
    with pytest.raises(type(stop)):
        kpca.compare(rows(), methods={"bad": Fixed(stop)})


def test_a_collapsed_embedding_has_no_quality() -> None:
    row = kpca.compare(rows(), halves(), methods={"flat": Fixed(np.ones((60, 2)))})["flat"]
    assert row.outcome == "done" and row.trustworthiness is None and row.distance_correlation is None
    assert "all rows are at the same place" in row.notes


def test_warnings_are_notes(recwarn: pytest.WarningsRecorder) -> None:
    far = np.concatenate([rows(30), rows(30) + 1e4])
    found = kpca.compare(far, methods=["Isomap", "MDS"], n_neighbors=5)
    assert any("connected components" in note for note in found["Isomap"].notes)
    assert found["Isomap"].outcome == "done"
    assert found["MDS"].notes == ()  # no FutureWarning about its start, either
    assert "connected components" in str(found)
    assert not recwarn.list


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1e30, 1e300])
def test_units_do_not_matter(scale: float) -> None:
    """t-SNE works in float32: of rows this small it would not return but end the process."""
    X = rows(30)
    plain, scaled = (kpca.compare(s * X, methods=FAST) for s in (1.0, scale))
    assert any("in units of" in note for note in scaled.notes) and not plain.notes
    for row in scaled:
        assert row.outcome == "done", row.error
        if row.name != "t-SNE":
            assert row.trustworthiness == pytest.approx(plain[row.name].trustworthiness, abs=0.02)


@pytest.mark.parametrize(("dtype", "offset"), [(np.float64, 1e8), (np.float32, 1e4)])
def test_origin_does_not_matter(dtype: Any, offset: float) -> None:
    X = rows(50).astype(dtype)
    near, far = kpca.compare(X, methods=FAST), kpca.compare(X + dtype(offset), methods=FAST)
    for name in FAST[:-1]:
        assert far[name].distance_correlation == pytest.approx(near[name].distance_correlation, abs=0.01), name


# -- hostile data -----------------------------------------------------------------------------------------------------

HOSTILE: dict[str, Callable[[], Any]] = {
    "three rows": lambda: rows(3),
    "four rows": lambda: rows(4),
    "one feature": lambda: rows(40, 1),
    "a line": lambda: np.outer(np.arange(30.0), [1.0, 2.0, 0.0]),
    "duplicates": lambda: np.repeat(rows(4), 10, axis=0),
    "whole numbers": lambda: np.random.default_rng(0).integers(0, 4, size=(40, 3)),
    "float32": lambda: rows(40).astype(np.float32),
    "square": lambda: rows(12, 12),
    "wide": lambda: rows(10, 40),
    "an outlier": lambda: np.concatenate([rows(30), np.full((1, 5), 1e10)]),
    "lists": lambda: rows(20).tolist(),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_rows(name: str) -> None:
    X = HOSTILE[name]()
    found = kpca.compare(X, methods=FAST)
    for row in found:
        assert row.outcome == "done", row
        assert row.embedding is not None and np.isfinite(row.embedding).all()
        assert row.trustworthiness is not None and 0 <= row.trustworthiness <= 1


def test_what_is_made_smaller_is_said() -> None:
    found = kpca.compare(rows(8, 3), n_components=5, methods=FAST, n_neighbors=9)
    assert found["PCA"].notes == ("3 in place of 5 components: there are 8 rows of 3 features",)
    assert found["Isomap"].notes == ("7 in place of 9 neighbours: there are 8 rows",)
    assert "perplexity 2.33 in place of 30: there are 8 rows" in found["t-SNE"].notes
    shapes = {row.name: row.embedding.shape[1] for row in found if row.embedding is not None}
    assert shapes == {**dict.fromkeys(FAST, 5), **dict.fromkeys(LINEAR, 3)}
    assert found.n_neighbors == 3 and "look at 3 neighbours" in str(found)


def test_frames() -> None:
    X = rows(40)
    names, classes = list("abcde"), np.where(halves(40), "yes", "no")
    truth = kpca.compare(X, np.column_stack([classes == "yes", X[:, 1] > 0]), methods=["pca"])
    for library in (pd, pl):
        frame = library.DataFrame({name: X[:, number] for number, name in enumerate(names)})
        known = library.DataFrame({"first": classes, "second": X[:, 1] > 0})
        found = kpca.compare(frame, known, methods=["pca"])
        assert found.targets == (("first", "accuracy"), ("second", "accuracy"))
        assert found["pca"].knn == truth["pca"].knn
        assert kpca.compare(frame, known["first"], methods=["pca"]).targets == (("first", "accuracy"),)
        assert "accuracy of first" in str(found)


def test_files(tmp_path: Any) -> None:
    X = rows(40)
    np.save(tmp_path / "rows.npy", X)
    found = kpca.compare(tmp_path / "rows.npy", methods=["pca"])
    np.testing.assert_array_equal(found["pca"].embedding, kpca.compare(X, methods=["pca"])["pca"].embedding)


def test_sparse_rows_are_made_dense_if_small() -> None:
    X = sparse.random(50, 30, density=0.2, format="csr", random_state=0)
    found, dense = kpca.compare(X, methods=FAST), kpca.compare(X.toarray(), methods=FAST)
    assert found.notes == ("the sparse rows were made dense (11.7 KiB)",)
    for row in found:
        np.testing.assert_array_equal(row.embedding, dense[row.name].embedding)


def test_large_sparse_rows_go_to_those_who_take_them(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sparse.random(50, 30, density=0.2, format="csr", random_state=0)
    dense = kpca.compare(X, methods=FAST)
    monkeypatch.setattr(runner, "_DENSE_BYTES", 1000)
    found = kpca.compare(X, methods=[*FAST, ("svd", TruncatedSVD(2))])
    left = {row.name: str(row.error) for row in found if row.outcome == "left out"}
    assert set(left) == {"randomised PCA", "MDS"}
    assert all("needs dense rows, which take 11.7 KiB" in text and "TruncatedSVD" in text for text in left.values())
    for name in ("PCA", "kernel PCA", "incremental PCA", "Isomap"):
        assert found[name].trustworthiness == pytest.approx(dense[name].trustworthiness, abs=1e-3), name
    assert found["svd"].outcome == found["t-SNE"].outcome == "done"


def test_too_many_rows_for_a_matrix() -> None:
    X = rows(90)
    found = kpca.compare(X, methods=FAST, max_rows=30)
    left = {row.name: str(row.error) for row in found if row.outcome == "left out"}
    assert set(left) == {"MDS", "Isomap", "t-SNE"}
    assert "takes part up to 30 rows: raise max_rows, or give a sample" in left["MDS"]
    assert "up to 60 rows = 2 x max_rows" in left["t-SNE"]
    assert kpca.compare(X, methods=["t-SNE"], max_rows=45)["t-SNE"].outcome == "done"
    four = kpca.compare(X, methods=["t-SNE"], max_rows=45, n_components=4)["t-SNE"]
    assert "n x n matrices" in str(four.error)  # no fast way beyond three components
    with kpca.config(memory_limit="200kB"):
        found = kpca.compare(X, methods=["pca", "mds"])
    assert "needs about 380 KiB, of 195 KiB that may be used" in str(found["mds"].error)
    assert found["pca"].outcome == "done"


# -- targets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "kind", "measure"),
    [
        (halves(), "auto", "accuracy"),
        (halves().astype(float), "auto", "accuracy"),
        (halves() > 0, "auto", "accuracy"),
        (np.arange(60) % 11, "auto", "accuracy"),
        (np.arange(60) % 13, "auto", "R2"),
        (np.arange(60) / 7, "auto", "R2"),
        (np.arange(60) // 6, "numbers", "R2"),
        (halves() > 0, "numbers", "R2"),
        (np.arange(60) / 7 // 2, "classes", "accuracy"),
        (np.array(["a", "b", "c"] * 20, dtype=object), "auto", "accuracy"),
        (np.array([1, 2.5, True] * 20, dtype=object), "auto", "R2"),
        (halves()[:, None], "auto", "accuracy"),
    ],
)
def test_classes_or_numbers(y: Any, kind: str, measure: str) -> None:
    found = kpca.compare(rows(), y, methods=["pca"], target_kind=kind)
    assert found.targets == (("y", measure),)
    assert found["pca"].knn[0] is not None


def test_targets_that_nothing_can_foretell() -> None:
    y = pd.DataFrame({"same": [1] * 60, "each": [str(i) for i in range(60)], "fine": halves()})
    found = kpca.compare(rows(), y, methods=["pca"])
    assert found["pca"].knn[:2] == (None, None) and found["pca"].knn[2]
    assert found["pca"].notes == (
        "no accuracy of same: it has one value only",
        "no accuracy of each: no class has two rows",
    )
    with pytest.raises(InputError, match="none has a figure"):
        found.best("knn")


def test_rare_classes_are_foretold_as_well_as_can_be() -> None:
    y = np.array(["rare", *["a", "b"] * 29, "a"])
    row = kpca.compare(rows(), y, methods=["pca"])["pca"]
    assert row.knn[0] is not None
    assert any("least populated class" in note for note in row.notes)


# -- what is refused --------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "close name": ({"methods": ["pca", "tsen"]}, "got 'tsen'. Did you mean 't-SNE'"),
    "far name": ({"methods": ["xyzzy"]}, r"must be one of 'PCA', .* got 'xyzzy'\.$"),
    "a text": ({"methods": "pca"}, r"write methods=\['pca', 'umap'\]"),
    "no method": ({"methods": []}, "at least one"),
    "twice": ({"methods": ["pca", ("PCA", PCA(2))]}, "'PCA' twice"),
    "no pair": ({"methods": [PCA(2)]}, r"name or a pair \(name, estimator\)"),
    "no estimator": ({"methods": {"mine": 3}}, "'mine' must be an estimator with fit_transform; got 3"),
    "a class": ({"methods": {"mine": PCA}}, "call the class"),
    "components": ({"n_components": 0}, "n_components must be a whole number from 1; got 0"),
    "a fraction": ({"n_components": 0.9}, "n_components must be a whole number"),
    "neighbours": ({"n_neighbors": True}, "n_neighbors must be a whole number"),
    "rows": ({"quality_rows": 2}, "quality_rows must be a whole number from 3"),
    "limit": ({"max_rows": "many"}, "max_rows must be a whole number"),
    "kind": ({"y": halves(), "target_kind": "class"}, "target_kind must be one of 'auto', 'classes', 'numbers'"),
    "length of y": ({"y": [1, 2]}, "one entry .* per row of X, 60 in all; y has 2"),
    "shape of y": ({"y": np.zeros((60, 2, 2))}, r"got shape \(60, 2, 2\)"),
    "NaN in y": ({"y": [np.nan] * 60}, "y must have no gaps; y holds NaN"),
    "None in y": ({"y": ["a", None] * 30}, "y must have no gaps; y holds None"),
    "NA in y": ({"y": pd.Series(["a", pd.NA] * 30, dtype=object)}, "y must have no gaps"),
    "text as numbers": ({"y": ["a"] * 60, "target_kind": "numbers"}, "needs numbers; y is of type"),
    "complex y": ({"y": np.zeros(60) + 1j}, "y is complex"),
    "NaN in X": ({"X": np.where(rows() > 2, np.nan, rows())}, "X must be finite; got NaN"),
    "constant rows": ({"X": np.ones((9, 3))}, "all 9 are the same"),
    "constant sparse rows": ({"X": sparse.csr_matrix(np.ones((9, 3)))}, "all 9 are the same"),
    "two rows": ({"X": rows(2)}, "at least 3 rows"),
    "text in X": ({"X": [["a", "b"]] * 5}, "numbers only"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    arguments, message = REFUSED[name]
    Fixed.calls = 0
    with pytest.raises(InputError, match=message):
        kpca.compare(**{"X": rows(), "methods": {"mine": Fixed(rows()[:, :2])}, **arguments})
    assert Fixed.calls == 0  # refused before anything has run


# -- the result -------------------------------------------------------------------------------------------------------


def test_result_as_data_and_text() -> None:
    found = kpca.compare(rows(), halves(), methods=["pca", ("bad", Fixed(ValueError("no")))])
    assert isinstance(found, Comparison)
    as_data = json.loads(json.dumps(found.to_dicts(), allow_nan=False))
    assert [row["name"] for row in as_data] == ["PCA", "bad"]
    assert as_data[0]["knn"] == {"y": found["pca"].knn[0]} and as_data[1]["knn"] == {}
    assert as_data[0]["n_components"] == 2 and as_data[1]["n_components"] is None
    lines = str(found).splitlines()
    assert lines[0].split()[:2] == ["method", "seconds"] and lines[0].endswith("new rows")
    assert lines[2].startswith("PCA") and lines[2].endswith("yes")
    assert lines[3] == "bad     failed: ValueError: no"
    with pytest.raises(InputError, match="Did you mean 'PCA'"):
        found["pcaa"]
    with pytest.raises(InputError, match=r"by its name; got 0: use \.rows"):
        found[0]  # type: ignore[index]


def test_best() -> None:
    X = rows()
    good, poor = ("good", Fixed(X[:, :3])), ("poor", Fixed(np.random.default_rng(0).normal(size=(60, 2))))
    found = kpca.compare(X, halves(), methods=[poor, good, ("again", good[1])])
    for criterion in ("trustworthiness", "continuity", "distance_correlation", "rank_correlation", "knn"):
        assert found.best(criterion).name == "good", criterion  # the first of equals
    assert found.best("seconds").seconds == min(row.seconds or 0 for row in found)
    with pytest.raises(InputError, match=r"criterion must be one of 'trustworthiness'.* got 'beauty'"):
        found.best("beauty")
    with pytest.raises(InputError, match="give compare a y"):
        kpca.compare(X, methods=[good]).best("knn")


def hungry(X: NDArray[Any]) -> NDArray[Any]:
    """Take 40 MiB in small pieces, which the C library keeps for the next one when they are freed."""
    pieces = [np.ones(8000) for _ in range(670)]
    KEPT.append(pieces[-1])  # so that the end of the heap stays where it is
    scale: float = sum(piece[0] for piece in pieces) / 670
    return scale * X[:, :2]


KEPT: list[NDArray[Any]] = []


def test_memory_is_measured_or_said_not_to_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    arguments: dict[str, Any] = {"X": rows(), "methods": [("one", Fixed(hungry)), ("two", Fixed(hungry))]}
    peaks = [row.peak_bytes for row in kpca.compare(**arguments)]
    if None not in peaks:  # else the system does not tell, and the table says so
        assert sys.platform == "linux"
        assert all(35 * 2**20 < peak < 60 * 2**20 for peak in peaks if peak is not None), peaks
    for name in ("_RESET", "_STATUS"):
        with monkeypatch.context() as patch:
            patch.setattr(measuring, name, tmp_path / "none" / "such")
            found = kpca.compare(**arguments)
            assert found["one"].peak_bytes is None and "not measured" in str(found)


# -- progress ---------------------------------------------------------------------------------------------------------


def test_progress_is_told_and_may_cancel(capfd: pytest.CaptureFixture[str]) -> None:
    heard: list[dict[str, Any]] = []
    with kpca.config(progress=heard.append):
        kpca.compare(rows(), methods=["pca", "isomap"])
    assert [(state["method"], state["number"], state["of"]) for state in heard] == [("PCA", 1, 2), ("Isomap", 2, 2)]
    assert all({"pass", "residual", "tol", "elapsed", "remaining"} <= set(state) for state in heard)
    with (
        kpca.config(progress=lambda state: state["method"] != "Isomap"),
        pytest.raises(kpca.Cancelled, match=r"cancelled .* before Isomap"),
    ):
        kpca.compare(rows(), methods=["pca", "isomap"])
    assert capfd.readouterr().err == ""
    with kpca.config(progress=True):
        kpca.compare(rows(), methods=["pca", "isomap"])
    assert "kpca: Isomap, 2 of 2" in capfd.readouterr().err


def test_a_fit_that_is_cancelled_cancels_all() -> None:
    """A callback that stops the fit of one method means the whole; that is no failure of the method."""
    slow = kpca.KernelPCA(2, kernel="rbf", eigen_solver="krylov")
    with kpca.config(progress=lambda state: "method" in state), pytest.raises(kpca.Cancelled, match="after pass"):
        kpca.compare(rows(), methods=[("kernel", slow), "pca"])


def test_example_in_the_docstring() -> None:
    assert doctest.testmod(runner) == (0, 7)
