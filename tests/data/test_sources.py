"""KernelPCA fitted to rows that lie in files or come in chunks: the same as for arrays, with flat memory."""

import numpy as np
import pandas as pd
import pytest

import kpca
from kpca import InputError, KernelPCA, Nystroem, RandomFeatures

pa = pytest.importorskip("pyarrow")
zarr = pytest.importorskip("zarr")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 4)) + np.repeat(np.eye(4)[:2] * 3, 250, axis=0)
NEW = RNG.normal(size=(20, 4))


@pytest.fixture(params=["npy", "map", "zarr", "parquet", "chunks", "frames"])
def stored(request, tmp_path):
    if request.param in ("npy", "map"):
        np.save(tmp_path / "rows.npy", X)
        return str(tmp_path / "rows.npy") if request.param == "npy" else np.load(tmp_path / "rows.npy", mmap_mode="r")
    if request.param == "zarr":
        return zarr.create_array(str(tmp_path / "rows.zarr"), data=X, chunks=(100, 4))
    frame = pd.DataFrame(X, columns=list("abcd"))
    if request.param == "parquet":
        frame.to_parquet(tmp_path / "rows.parquet")
        return tmp_path / "rows.parquet"
    return [X[:200], X[200:]] if request.param == "chunks" else [frame[:200], frame[200:]]


@pytest.mark.parametrize(
    "approximation",
    [None, "auto", Nystroem(60, landmarks=X[:60]), RandomFeatures(64)],
    ids=["exact", "auto", "nystroem", "random"],
)
def test_rows_on_disk_equal_rows_in_memory(stored, approximation):
    settings = {"kernel": "rbf", "gamma": 0.2, "approximation": approximation, "random_state": 0}
    expected, found = KernelPCA(3, **settings).fit(X), KernelPCA(3, **settings).fit(stored)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(found.eigenvectors_, expected.eigenvectors_, atol=1e-7)
    np.testing.assert_allclose(found.transform(NEW), expected.transform(NEW), atol=1e-7)
    np.testing.assert_allclose(found.transform(stored), expected.transform(X), atol=1e-7)
    assert found.n_features_in_ == 4
    assert found.approximation is approximation


def test_an_exact_fit_by_auto_keeps_a_copy():
    rows = X.copy()
    model = KernelPCA(3, kernel="rbf", gamma=0.2, approximation="auto").fit(rows)
    before = model.transform(NEW)
    rows[:] = 0.0
    np.testing.assert_array_equal(model.transform(NEW), before)


def test_weights_go_with_the_rows(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    w = RNG.integers(0, 3, size=len(X)).astype(float)
    settings = {"kernel": "rbf", "gamma": 0.2, "approximation": Nystroem(60, landmarks=X[:60])}
    expected = KernelPCA(3, **settings).fit(X, sample_weight=w)
    found = KernelPCA(3, **settings).fit(tmp_path / "rows.npy", sample_weight=w)
    np.testing.assert_allclose(found.eigenvalues_, expected.eigenvalues_, rtol=1e-9)
    np.testing.assert_allclose(found.explained_variance_, expected.explained_variance_, rtol=1e-9)


def test_scores_are_written_in_chunks(tmp_path, stored):
    model = KernelPCA(3, kernel="rbf", gamma=0.2).fit(X)
    kpca.write_scores(model, stored, tmp_path / "scores.npy")
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), model.transform(X), atol=1e-12)


def test_the_way_back_is_learned_from_some_rows(stored):
    model = KernelPCA(3, kernel="rbf", gamma=0.05, approximation=Nystroem(100), fit_inverse_transform=True, alpha=1e-3)
    model.fit(stored)
    error = np.square(model.inverse_transform(model.transform(X)) - X).mean() / X.var(axis=0).mean()
    assert error < 0.7


def test_rows_that_do_not_fit_are_refused_for_an_exact_fit(tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros((200_000, 20), dtype=np.float32))
    with kpca.config(memory_limit="8MiB"), pytest.raises(InputError, match="approximation='nystroem'"):
        KernelPCA(3, kernel="rbf").fit(str(tmp_path / "rows.npy"))


def test_files_that_are_not_there_or_foreign_get_one_sentence(tmp_path):
    (tmp_path / "text.npy").write_text("not an array")
    for path in (tmp_path / "none.npy", tmp_path / "text.npy", tmp_path / "table.xlsx"):
        with pytest.raises(InputError):
            KernelPCA(3, kernel="rbf", approximation="nystroem").fit(path)
