"""Tables that do not fit into memory: fitted in chunks, prepared chunk after chunk, the same as in one go."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from io_tables import ShortChunks, category_rows, mixed_rows, numeric_rows, text_rows, truth
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import kpca
from kpca import IncrementalKernelPCA, InputError, KernelPCA, Nystroem
from kpca.data import survey
from kpca.data.preparation import Preparation, prepared_source
from kpca.data.rows import stacked
from kpca.data.sources import Source, as_source, sample_rows
from kpca.data.survey import MemoryTable

SCALES = ["none", "standard", "robust", "minmax"]


def dense(X: Any) -> Any:
    return X.toarray() if sparse.issparse(X) else X


@given(
    st.integers(1, 60),
    st.integers(1, 25),
    st.sampled_from(["median", "mean", "drop"]),
    st.sampled_from(SCALES),
    st.integers(0, 5),
)
def test_chunks_give_what_the_whole_gives(n: int, most: int, impute: str, scale: str, seed: int) -> None:
    rows = mixed_rows(n, seed=seed)
    whole = Preparation(encode="onehot", impute=impute, scale=scale)
    try:
        expected = whole.fit_transform(rows)
    except InputError as error:  # nothing in a column, or no row left
        with pytest.raises(InputError) as caught:
            Preparation(encode="onehot", impute=impute, scale=scale).fit(ShortChunks(rows, most))
        assert str(caught.value) == str(error)
        return
    table = ShortChunks(rows, most)
    found = Preparation(encode="onehot", impute=impute, scale=scale).fit(table)
    assert_allclose(found.transform(table), expected, rtol=1e-9, atol=1e-9)
    assert table.longest <= most
    assert found.describe() == whole.describe()
    source = prepared_source(found, table)
    assert source.n_rows == len(expected)
    assert_array_equal(stacked(list(source.chunks(7))), found.transform(table))
    picks = np.random.default_rng(seed).integers(0, len(expected), 9)
    assert_array_equal(source.rows(picks), found.transform(table)[picks])


@given(st.integers(1, 80), st.integers(1, 30), st.integers(0, 20))
def test_ids_and_labels_stay_with_their_rows(n: int, most: int, seed: int) -> None:
    rows = mixed_rows(n, seed=seed)
    table = ShortChunks(rows, most)
    try:
        preparation = Preparation(encode="onehot", impute="drop").fit(table)
    except InputError:
        return
    parts = [preparation.prepare(chunk) for chunk in table.chunks()]
    kept = np.concatenate([part.kept for part in parts])
    complete = ~np.isnan(rows.numbers).any(axis=1) & np.array([c is not None for c in rows.categories["colour"]])
    assert_array_equal(kept, np.flatnonzero(complete))
    assert_array_equal(np.concatenate([part.ids for part in parts]), rows.ids[kept])
    assert_array_equal(np.concatenate([part.labels for part in parts]), rows.labels[kept])
    assert_array_equal(np.concatenate([part.X for part in parts])[:, :4], rows.numbers[kept])


# --- when a source is given -------------------------------------------------------------------------------------------


def test_a_source_exactly_where_memory_is_short() -> None:
    X = np.random.default_rng(0).normal(size=(1000, 5))
    preparation = Preparation(scale="standard").fit(numeric_rows(X))
    with kpca.config(memory_limit=4 * X.nbytes):
        array = preparation.transform(numeric_rows(X))
    with kpca.config(memory_limit=4 * X.nbytes - 1):
        source = preparation.transform(numeric_rows(X))
    assert isinstance(array, np.ndarray) and isinstance(source, Source)
    assert (source.n_rows, source.n_columns, source.dtype, source.sparse) == (1000, 5, np.float64, False)
    assert source.repeatable and source.random_access and source.names is None
    for rows in (None, 1, 999, 5000):
        assert_array_equal(stacked(list(source.chunks(rows))), array)
    assert_array_equal(stacked(list(source.batches())), array)


def test_rows_left_out_do_not_count() -> None:
    rows = mixed_rows(400, holes=False)
    rows.numbers[:300, 0] = np.nan
    preparation = Preparation(encode="onehot", impute="drop").fit(rows)
    kept_bytes = 100 * preparation.n_features_out_ * 8
    with kpca.config(memory_limit=4 * kept_bytes):
        assert preparation.transform(rows).shape[0] == 100
    with kpca.config(memory_limit=4 * kept_bytes - 1):
        source = preparation.transform(rows)
    assert source.n_rows == 100 and source.rows([99, 0]).shape == (2, preparation.n_features_out_)


def test_sparse_rows_are_weighed_as_they_come() -> None:
    texts = [f"day night sun{number % 7} rain{number % 5}" for number in range(500)]
    rows = text_rows([*texts])
    preparation = Preparation().fit(rows)
    X = preparation.transform(rows)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    with kpca.config(memory_limit=8 * size):
        assert sparse.issparse(preparation.transform(rows))
    with kpca.config(memory_limit=3 * size):
        source = preparation.transform(rows)
    assert isinstance(source, Source) and source.sparse
    assert_array_equal(dense(stacked(list(source.chunks(33)))), X.toarray())
    assert_array_equal(dense(source.rows([400, 3, 3])), X[[400, 3, 3]].toarray())


def test_float32_stays() -> None:
    rows = mixed_rows(dtype=np.float32)
    preparation = Preparation(encode="onehot", impute="median", scale="robust").fit(rows)
    with kpca.config(memory_limit=1000):
        source = preparation.transform(rows)
    assert source.dtype == np.float32 and next(iter(source.chunks())).dtype == np.float32
    # A file of other numbers, for a model of float32.
    assert preparation.transform(mixed_rows(seed=1)).dtype == np.float32


def test_a_later_fit_does_not_change_a_source() -> None:
    rows = mixed_rows(holes=False)
    preparation = Preparation(encode="onehot", scale="standard").fit(rows)
    expected = preparation.transform(rows)
    source = prepared_source(preparation, MemoryTable(rows))
    preparation.set_params(impute="drop").fit(mixed_rows(seed=3))
    assert_array_equal(stacked(list(source.chunks())), expected)


def test_unknown_values_are_warned_of_once_per_source() -> None:
    preparation = Preparation(encode="onehot").fit(category_rows(["a", "b"]))
    table = ShortChunks(category_rows(["c", "a"] * 50), 10)
    source = prepared_source(preparation, table)
    with pytest.warns(UserWarning, match="'c'") as caught:
        list(source.chunks())
        list(source.chunks())
    assert len(caught) == 1


def test_rows_that_change_between_passes_are_noticed() -> None:
    table = MemoryTable(numeric_rows(np.eye(5)))
    preparation = Preparation().fit(table)
    source = prepared_source(preparation, table)
    table._rows = numeric_rows(np.eye(6)[:, :5])
    with pytest.raises(InputError, match="it gave 5, then 6"):
        list(source.chunks())
    table.n_rows = 4
    with pytest.raises(InputError, match="it gave 4, then more"):
        preparation.transform(table)


# --- samples ----------------------------------------------------------------------------------------------------------


def test_medians_of_large_tables_come_from_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = mixed_rows(20_000)
    exact = Preparation(encode="onehot", impute="median", scale="robust").fit(rows)
    assert "drawn" not in " ".join(exact.describe())
    monkeypatch.setattr(survey, "SAMPLE_BYTES", 8000 * 4 * 8)
    sampled = Preparation(encode="onehot", impute="median", scale="robust").fit(rows)
    told = " ".join(sampled.describe())
    assert told.count("of 8,000 rows drawn from all 20,000") == 2
    # The median of 8000 of 20 000 normal numbers is off by less than 4 standard errors.
    error = 1.2533 * np.sqrt(1 / 8000) * np.array([1.0, 20.0, 0.1])
    gap = np.abs(sampled.numbers_imputer_.statistics_ - exact.numbers_imputer_.statistics_)[:3]
    assert (gap > 0).all() and (gap < 4 * error).all()
    again = Preparation(encode="onehot", impute="median", scale="robust").fit(ShortChunks(rows, 999))
    assert_array_equal(again.numbers_imputer_.statistics_, sampled.numbers_imputer_.statistics_)
    assert_array_equal(again.scaler_.scale_, sampled.scaler_.scale_)
    other = Preparation(encode="onehot", impute="median", random_state=7).fit(rows)
    assert (other.numbers_imputer_.statistics_ != sampled.numbers_imputer_.statistics_)[:3].all()


def test_sparse_quartiles_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sparse.random_array((6000, 3), density=0.9, format="csr", rng=np.random.default_rng(0))
    monkeypatch.setattr(survey, "SAMPLE_BYTES", 3000 * 3 * 12)
    found = Preparation(scale="robust").fit(ShortChunks(numeric_rows(X), 500))
    assert "3,000 rows drawn from all 6,000" in found.describe()[0]
    whole = np.percentile(X.toarray(), [25, 75], axis=0)
    assert_allclose(found.scaler_.scale_, whole[1] - whole[0], rtol=0.1)


def test_how_often_a_table_is_read() -> None:
    """Once where it can be; twice where the spread is that of the numbers as filled in."""
    for settings, holes, passes in [
        ({"scale": "standard"}, False, 1),
        ({"impute": "mean", "scale": "standard"}, False, 1),
        ({"impute": "drop", "scale": "robust"}, True, 1),
        ({"impute": "median", "scale": "robust"}, True, 1),
        ({"impute": "median", "scale": "minmax"}, True, 2),
        ({"impute": "mean", "scale": "standard"}, True, 2),
    ]:
        table = ShortChunks(mixed_rows(100, holes=holes))
        Preparation(encode="onehot", **settings).fit(table)
        assert table.passes == passes, settings


# --- models -----------------------------------------------------------------------------------------------------------


def source_and_array(n: int = 900) -> tuple[Source, Any]:
    rows = mixed_rows(n)
    preparation = Preparation(encode="onehot", impute="mean", scale="standard").fit(rows)
    array = preparation.transform(rows)
    with kpca.config(memory_limit=1000):
        return preparation.transform(ShortChunks(rows, 100)), array


@pytest.mark.parametrize("approximation", ["nystroem", Nystroem(50, landmarks="uniform"), "auto", None])
def test_kernel_pca_of_a_source(approximation: Any) -> None:
    source, array = source_and_array()
    model = KernelPCA(3, kernel="rbf", gamma=0.1, approximation=approximation, random_state=0)
    found = model.fit(source)
    scores = found.transform(array)
    stream = kpca.KernelPCA(**found.get_params(deep=False)).fit(as_source([array]))
    assert_array_equal(found.eigenvalues_, stream.eigenvalues_)  # to the bit: the chunks are the same
    assert_array_equal(scores, stream.transform(array))
    assert_allclose(np.vstack([found.transform(part) for part in source.chunks(200)]), scores, atol=1e-10)
    assert not hasattr(found, "feature_names_in_")  # arrays are taken without a warning


def test_incremental_kernel_pca_of_a_source() -> None:
    source, array = source_and_array()
    found = IncrementalKernelPCA(3, kernel="rbf", gamma=0.1, random_state=0).fit(source)
    expected = IncrementalKernelPCA(3, kernel="rbf", gamma=0.1, random_state=0).fit(as_source(np.array(array)))
    assert_array_equal(found.eigenvalues_, expected.eigenvalues_)
    assert_array_equal(found.transform(array), expected.transform(array))


def test_samples_and_sinks(tmp_path: Path) -> None:
    source, array = source_and_array()
    assert_array_equal(sample_rows(source, 50, 3), sample_rows(as_source(array), 50, 3))
    model = KernelPCA(2, kernel="rbf", gamma=0.1, approximation="nystroem").fit(source)
    kpca.write_scores(model, source, tmp_path / "scores.npy")
    assert_allclose(np.load(tmp_path / "scores.npy"), model.transform(array), atol=1e-12)


def test_progress_is_told_and_may_cancel() -> None:
    told: list[dict[str, Any]] = []
    with kpca.config(progress=told.append):
        Preparation(encode="onehot", impute="mean", scale="minmax").fit(ShortChunks(mixed_rows(100), 30))
    assert [state["rows"] for state in told] == [30, 60, 90, 100] * 2 and told[0]["of"] == 100
    preparation = Preparation(encode="onehot", impute="mean")
    with kpca.config(progress=lambda state: False), pytest.raises(kpca.Cancelled):
        preparation.fit(mixed_rows(100))
    assert not hasattr(preparation, "layout_")


FLAT = """
import resource, sys
import numpy as np
import kpca
from kpca import KernelPCA
from kpca.data.preparation import Preparation
from kpca.data.rows import Layout, Rows

class Made:
    # Rows that are made as they are read: 192 MB in all.
    name, sparse, image_shape, dtype = "made", False, None, np.dtype(float)
    layout = Layout(tuple(f"x{i}" for i in range(20)))
    n_rows = 1_200_000
    def chunks(self, rows=None):
        rows = rows or 50_000
        for first in range(0, self.n_rows, rows):
            m = min(rows, self.n_rows - first)
            yield Rows(self.layout, np.random.default_rng(first).random((m, 20)), first=first)
    def whole(self):
        raise AssertionError("must not be read in one go")

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

KernelPCA(2, kernel="rbf", gamma=0.1, approximation="nystroem").fit(np.random.rand(500, 20))
base = peak()
with kpca.config(memory_limit="100MiB"):
    source = Preparation(scale="standard").fit(Made()).transform(Made())
    total = sum(float(chunk.sum()) for chunk in source.chunks())
    source.rows(np.arange(0, 1_200_000, 1000))
print(type(source).__name__, abs(total) < 1e-3, peak() - base)
"""


@pytest.mark.slow
def test_memory_stays_flat() -> None:
    command = [sys.executable, "-c", FLAT]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.split()
    assert done[:2] == ["ReaderSource", "True"]
    assert float(done[2]) < 90


def test_truth_of_chunks_is_scikit_learns() -> None:
    rows = replace(mixed_rows(2000), ids=None)
    table = ShortChunks(rows, 128)
    for impute in ("median", "mean", "drop"):
        for scale in SCALES:
            found = Preparation(encode="onehot", impute=impute, scale=scale).fit(table).transform(table)
            assert_allclose(found, truth(rows, impute, scale), rtol=1e-9, atol=1e-10)
