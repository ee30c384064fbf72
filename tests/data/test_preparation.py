"""Preparation against scikit-learn's ColumnTransformer, and what it says of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from io_tables import category_rows, mixed_rows, numeric_rows, text_rows, truth
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, RobustScaler, StandardScaler
from sklearn.utils import get_tags

from kpca import KernelPCA
from kpca._base.errors import InputError
from kpca.data.preparation import Preparation
from kpca.data.survey import MemoryTable

SCALES = ["none", "standard", "robust", "minmax"]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("impute", ["median", "mean", "drop"])
def test_equals_scikit_learn(impute: str, scale: str, dtype: Any) -> None:
    rows = mixed_rows(dtype=dtype)
    preparation = Preparation(encode="onehot", impute=impute, scale=scale)
    X = preparation.fit_transform(rows)
    expected = truth(rows, impute, scale)
    assert X.dtype == dtype and X.flags.c_contiguous
    assert_allclose(
        X, expected, rtol=1e-10 if dtype == np.float64 else 2e-5, atol=1e-12 if dtype == np.float64 else 1e-4
    )
    assert len(preparation.get_feature_names_out()) == X.shape[1] == preparation.n_features_out_
    assert preparation.n_features_in_ == 6


def test_complete_rows_of_numbers_pass_through() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    prepared = Preparation().fit(numeric_rows(X))
    assert_array_equal(prepared.transform(numeric_rows(X)), X)
    assert prepared.describe() == ()
    assert prepared.encoder_ is prepared.scaler_ is prepared.numbers_imputer_ is prepared.vectorizer_ is None


def test_new_rows_are_treated_as_those_of_the_fit() -> None:
    rows, new = mixed_rows(), mixed_rows(seed=5)
    preparation = Preparation(encode="onehot", impute="median", scale="standard").fit(rows)
    filled = np.where(np.isnan(new.numbers), np.nanmedian(rows.numbers, axis=0), new.numbers)
    known = np.where(np.isnan(rows.numbers), np.nanmedian(rows.numbers, axis=0), rows.numbers)
    expected = StandardScaler().fit(known).transform(filled)
    assert_allclose(preparation.transform(new)[:, :4], expected, rtol=1e-10, atol=1e-12)


# --- sparse numbers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("scale", "scaler"),
    [
        ("standard", StandardScaler(with_mean=False)),
        ("robust", RobustScaler(with_centering=False)),
        ("minmax", MaxAbsScaler()),
    ],
)
def test_sparse_numbers_are_not_centred(scale: str, scaler: Any, dtype: Any) -> None:
    X = sparse.random_array((200, 5), density=0.6, format="csr", rng=np.random.default_rng(0), dtype=dtype)
    preparation = Preparation(scale=scale)
    found = preparation.fit_transform(numeric_rows(X))
    assert isinstance(found, sparse.csr_array) and found.dtype == dtype and found.nnz == X.nnz
    assert_allclose(found.toarray(), scaler.fit_transform(X).toarray(), rtol=1e-5 if dtype == np.float32 else 1e-12)
    assert "zeros stay zeros" in preparation.describe()[0]
    back = preparation.inverse_transform(found).numbers
    assert_allclose(back.toarray(), X.toarray(), rtol=1e-5)


def test_sparse_numbers_with_categories() -> None:
    dense = mixed_rows(holes=False)
    rows = replace(dense, numbers=sparse.csr_array(dense.numbers))
    found = Preparation(encode="onehot").fit_transform(rows)
    assert_array_equal(found.toarray(), Preparation(encode="onehot").fit_transform(dense))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("text", [False, True])
def test_sparse_rows_for_a_dense_model_and_back(scale: str, text: bool) -> None:
    X = np.round(np.random.default_rng(0).normal(size=(30, 3)))
    dense = numeric_rows(X)
    if text:
        dense = replace(
            dense, layout=replace(dense.layout, text="t"), documents=np.array(["up down"] * 30, dtype=object)
        )
    thin = replace(dense, numbers=sparse.csr_array(X))
    for fitted_to, given_rows in ((dense, thin), (thin, dense)):
        preparation = Preparation(scale=scale).fit(fitted_to)
        found, expected = preparation.transform(given_rows), preparation.transform(fitted_to)
        assert type(found) is type(expected)
        both = [part.toarray() if sparse.issparse(part) else part for part in (found, expected)]
        assert_array_equal(*both)


def test_missing_numbers_of_sparse_tables_are_refused() -> None:
    X = sparse.csr_array(np.array([[0.0, 1.0], [2.0, np.nan], [0.0, 3.0]]))
    for impute in (None, "median", "mean", "drop"):
        with pytest.raises(InputError, match=r"a missing number in row 1 .* of column 'x1'"):
            Preparation(impute=impute).fit(numeric_rows(X))


# --- categories -------------------------------------------------------------------------------------------------------


def test_missing_category_is_a_value_of_its_own() -> None:
    preparation = Preparation(encode="onehot").fit(category_rows(["b", None, "a", "", None]))
    assert list(preparation.get_feature_names_out()) == ["kind=", "kind=a", "kind=b", "kind missing"]
    assert_array_equal(preparation.transform(category_rows([None, "a"])), [[0, 0, 0, 1], [0, 1, 0, 0]])
    assert "one of them for missing" in preparation.describe()[0]


def test_unknown_category_is_zero_with_one_warning() -> None:
    preparation = Preparation(encode="onehot").fit(category_rows(["a", "b"]))
    with pytest.warns(UserWarning, match=r"'kind' holds 'mauve', which the fit has not seen; 2 of 3 rows") as caught:
        X = preparation.transform(category_rows(["mauve", "b", None]))
    assert len(caught) == 1
    assert_array_equal(X, [[0, 0], [0, 1], [0, 0]])
    with pytest.warns(UserWarning, match="holds a missing value"):
        preparation.transform(category_rows([None]))


def test_texts_that_are_no_texts() -> None:
    """Truth values, numbers and pandas' missing values, as frames may have them."""
    import pandas as pd

    values = [True, False, 3, 2.5, float("nan"), pd.NA, pd.NaT, np.float32(0.1), 7.0]
    preparation = Preparation(encode="onehot").fit(category_rows(values))
    assert list(preparation.encoder_.categories_[0]) == ["0.1", "2.5", "3", "7", "False", "True", None]


def test_names_are_distinct() -> None:
    rows = category_rows(["b", "missing"], name="a")
    rows = replace(rows, layout=replace(rows.layout, numbers=("a=b", "a missing")), numbers=np.eye(2))
    assert list(Preparation(encode="onehot").fit(rows).get_feature_names_out()) == [
        "a=b",
        "a missing",
        "a=b (2)",
        "a=missing",
    ]


@pytest.mark.parametrize(
    "value", ["", " ", "line\nbreak", "ü" * 5000, "a=b", "\u202eabc", "None", "nan", "\x00", "😀", "a,b;c\t'\""]
)
def test_odd_categories(value: str) -> None:
    preparation = Preparation(encode="onehot").fit(category_rows([value, "other", None]))
    X = preparation.transform(category_rows([value, None]))
    assert_array_equal(X.sum(axis=1), [1, 1])
    assert list(preparation.inverse_transform(X).categories["kind"]) == [value, None]
    assert all("\n" not in sentence and len(sentence) < 400 for sentence in preparation.describe())


def test_the_number_of_values_is_limited() -> None:
    rows = category_rows([f"v{number}" for number in range(1200)])
    with pytest.raises(InputError, match=r"at most 1,000 different values; 'kind' of The data has more.*with id"):
        Preparation(encode="onehot").fit(rows)
    assert Preparation(encode="onehot", max_categories=1200).fit(rows).n_features_out_ == 1200


# --- documents --------------------------------------------------------------------------------------------------------

WORDS = [f"word{number}" for number in range(60)]


def documents(n: int, seed: int = 0) -> list[str]:
    random = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, 61)
    return [" ".join(random.choice(WORDS, 12, p=shares / shares.sum())) for _ in range(n)]


@pytest.mark.parametrize(("n", "share"), [(8, 1.0), (200, 0.5)])
@pytest.mark.parametrize("most", [20_000, 10])
def test_documents_equal_scikit_learn(n: int, share: float, most: int) -> None:
    texts = documents(n)
    preparation = Preparation(max_words=most)
    found = preparation.fit_transform(text_rows([*texts]))
    expected = TfidfVectorizer(sublinear_tf=True, min_df=2, max_df=share, max_features=most).fit(texts)
    assert isinstance(found, sparse.csr_array)
    if most == 10 and n == 8:  # equally frequent words: which of them stay is not scikit-learn's to say
        assert found.shape == (8, 10)
        return
    assert preparation.vectorizer_.vocabulary_ == expected.vocabulary_
    assert_allclose(found.toarray(), expected.transform(texts).toarray(), rtol=1e-12)
    assert list(preparation.get_feature_names_out()) == [f"review:{w}" for w in expected.get_feature_names_out()]
    assert f"{n:,} documents" in preparation.describe()[0]


def test_missing_and_empty_documents() -> None:
    rows = text_rows(["good day", None, "good night", "", "night day"])
    preparation = Preparation().fit(rows)
    X = preparation.transform(rows)
    assert X.shape == (5, 3) and X[[1, 3]].nnz == 0
    assert "1 missing document was taken as empty." in preparation.describe()
    dropping = Preparation(impute="drop").fit(rows)
    assert dropping.transform(rows).shape == (4, 3)


def test_documents_that_share_no_word_are_spoken_of() -> None:
    """As those of languages without blanks between words: they would all be equally far from each other."""

    def said(*documents: str) -> str:
        return Preparation().fit(text_rows(list(documents))).describe()[0]

    assert "No word is in two documents" in said("我喜欢猫", "我喜欢狗")
    assert said("good film", "bad film") == (
        "The 2 documents of 'review' became TF-IDF weights of 1 word (those in at least 2 documents)."
    )
    assert said("good film") == "The document of 'review' became TF-IDF weights of 2 words."


def test_few_documents_keep_their_words() -> None:
    assert Preparation().fit(text_rows(["only one"])).n_features_out_ == 2
    with pytest.raises(InputError, match="'review' must hold words"):
        Preparation().fit(text_rows(["", "?", None]))


def test_documents_with_numbers_and_categories() -> None:
    rows = mixed_rows(40, dtype=np.float32)
    texts = np.array(documents(40), dtype=object)
    both = replace(rows, layout=replace(rows.layout, text="review"), documents=texts)
    settings: dict[str, Any] = {"encode": "onehot", "impute": "mean", "scale": "standard"}
    found = Preparation(**settings).fit_transform(both)
    left = Preparation(**settings).fit_transform(rows)
    right = Preparation().fit_transform(replace(text_rows([*texts]), numbers=np.zeros((40, 0), np.float32)))
    assert found.dtype == np.float32
    assert_array_equal(found.toarray(), np.hstack([left, right.toarray()]))


def test_words_are_forgotten_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    from kpca.data import survey as words

    monkeypatch.setattr(words, "_MOST_HELD", 50)
    texts = [f"common usual unique{number} rare{number}" for number in range(200)]
    preparation = Preparation().fit(text_rows([*texts]))
    assert set(preparation.vectorizer_.vocabulary_) == {"common", "usual"}
    assert "forgotten" in preparation.describe()[0]


# --- the inverse map --------------------------------------------------------------------------------------------------

NUMBERS = arrays(
    np.float64, st.tuples(st.integers(1, 12), st.integers(1, 4)), elements=st.floats(-1e6, 1e6, allow_subnormal=False)
)


@given(NUMBERS, st.sampled_from(SCALES))
def test_there_and_back(X: Any, scale: str) -> None:
    preparation = Preparation(scale=scale)
    prepared = preparation.fit_transform(numeric_rows(X))
    assert np.isfinite(prepared).all()
    spread = np.abs(X).max() + 1.0
    assert_allclose(preparation.inverse_transform(prepared).numbers, X, rtol=1e-9, atol=1e-9 * spread)


@pytest.mark.parametrize("scale", SCALES)
def test_mixed_rows_there_and_back(scale: str) -> None:
    rows = mixed_rows(holes=False)
    preparation = Preparation(encode="onehot", scale=scale)
    X = preparation.fit_transform(rows)
    noisy = X.copy()
    noisy[:, 4:] += np.random.default_rng(0).uniform(-0.4, 0.4, size=noisy[:, 4:].shape)
    back = preparation.inverse_transform(noisy)
    assert_allclose(back.numbers, rows.numbers, rtol=1e-12, atol=1e-12)
    for column, values in rows.categories.items():
        assert_array_equal(back.categories[column], values)
    assert len(back) == len(rows) and back.ids is None


def test_no_way_back_from_words_or_other_shapes() -> None:
    texts = Preparation().fit(text_rows(["good day", "good night"]))
    with pytest.raises(InputError, match="no inverse map to documents"):
        texts.inverse_transform(np.zeros((1, 1)))
    numbers = Preparation().fit(numeric_rows(np.eye(3)))
    for wrong in (np.zeros((2, 2)), np.zeros(3)):
        with pytest.raises(InputError, match=r"shape \(m, 3\)"):
            numbers.inverse_transform(wrong)


# --- an estimator of scikit-learn -------------------------------------------------------------------------------------


def test_estimator_contract() -> None:
    preparation = Preparation(encode="onehot", impute="drop", scale="robust", max_words=7)
    assert clone(preparation).get_params() == preparation.get_params()
    assert clone(preparation).set_params(impute="mean").impute == "mean"
    assert get_tags(preparation).input_tags.allow_nan and not get_tags(Preparation()).input_tags.allow_nan
    for ask in (preparation.describe, preparation.get_feature_names_out, lambda: preparation.transform(mixed_rows())):
        with pytest.raises(NotFittedError):
            ask()
    preparation.fit(mixed_rows())
    with pytest.raises(InputError, match="input_features"):
        preparation.get_feature_names_out(["a"])
    assert repr(preparation).startswith("Preparation(")


def test_a_failed_fit_changes_nothing() -> None:
    preparation = Preparation(encode="onehot", impute="median").fit(mixed_rows())
    before = preparation.transform(mixed_rows())
    with pytest.raises(InputError):
        preparation.fit(numeric_rows(np.full((3, 2), np.nan)))
    assert_array_equal(preparation.transform(mixed_rows()), before)


def test_in_a_pipeline() -> None:
    rows = mixed_rows()
    pipeline = make_pipeline(
        Preparation(encode="onehot", impute="median", scale="standard"), KernelPCA(3, kernel="rbf", gamma=0.1)
    )
    scores = pipeline.fit_transform(rows)
    expected = KernelPCA(3, kernel="rbf", gamma=0.1).fit_transform(truth(rows, "median", "standard"))
    assert_allclose(scores, expected, atol=1e-9)
    assert_allclose(pipeline.transform(rows), scores, atol=1e-9)


def test_what_it_says() -> None:
    rows = mixed_rows(holes=False)
    rows.numbers[:3, 1] = np.nan
    rows.numbers[5, 0] = np.nan
    said = Preparation(encode="onehot", impute="median", scale="standard").fit(rows).describe()
    assert said == (
        "4 missing numbers were replaced by the median of the column: 'a' 1, 'b b' 3.",
        "Each value became a column of 0 and 1, not scaled: 'colour' (3), 'home town' (3).",
        "4 columns were scaled to mean 0 and variance 1.",
        "1 column was not stretched, being constant: 'd'.",
    )
    dropped = Preparation(encode="onehot", impute="drop", scale="robust").fit(rows)
    assert dropped.describe()[0] == "4 of 300 rows were left out, because values are missing in them."
    assert dropped.describe()[-1].endswith("being without a distance between the quartiles: 'd'.")
    assert (dropped.n_rows_, dropped.n_kept_, dropped.n_missing_) == (300, 296, 4)


def test_quartiles_one_apart_are_not_called_constant() -> None:
    X = np.repeat([[0.0], [1.0]], 8, axis=0)
    assert len(Preparation(scale="robust").fit(numeric_rows(X)).describe()) == 1


def test_memory_table() -> None:
    rows = mixed_rows(50)
    table = MemoryTable(rows, "some rows")
    chunks = list(table.chunks(20))
    assert [len(chunk) for chunk in chunks] == [20, 20, 10] and [chunk.first for chunk in chunks] == [0, 20, 40]
    assert_array_equal(np.concatenate([chunk.ids for chunk in chunks]), rows.ids)
    assert table.digest() == MemoryTable(mixed_rows(50)).digest() != MemoryTable(mixed_rows(50, seed=1)).digest()
    with pytest.raises(InputError, match="float32 or float64; got int64"):
        MemoryTable(numeric_rows(np.ones((2, 2), dtype=np.int64)))
