"""Columns by name from other tables, and what is refused, in one sentence each."""

from __future__ import annotations

from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
import pytest
from io_tables import category_rows, mixed_rows, numeric_rows, text_rows
from numpy.testing import assert_array_equal
from scipy import sparse

import kpca
from kpca._base.errors import InputError
from kpca.data.preparation import Preparation
from kpca.data.rows import Layout, Rows
from kpca.data.survey import MemoryTable


def texts(*values: Any) -> Any:
    held = np.empty(len(values), dtype=object)
    held[:] = values
    return held


def refusal(call: Any) -> str:
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message and message.endswith(".") and len(message) < 1000
    return message


# --- parameters and tables --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"encode": "ordinal"}, "encode must be one of None, 'onehot'; got 'ordinal'."),
        ({"impute": "zero"}, "impute must be one of None, 'median', 'mean', 'drop'; got 'zero'."),
        ({"scale": None}, "scale must be one of 'none', 'standard', 'robust', 'minmax'; got None."),
        ({"max_words": 0}, "max_words must be a whole number from 1; got 0."),
        ({"max_categories": 2.5}, "max_categories must be a whole number from 1; got 2.5."),
        ({"random_state": "x"}, "random_state must be None"),
        ({"scale": ["standard"]}, "scale must be one of"),
    ],
)
def test_parameters(settings: dict[str, Any], message: str) -> None:
    assert refusal(lambda: Preparation(**settings).fit(numeric_rows(np.eye(3)))).startswith(message)


def test_tables_without_rows_or_columns() -> None:
    assert "must have at least one row" in refusal(lambda: Preparation().fit(numeric_rows(np.zeros((0, 3)))))
    empty = Rows(Layout((), id="key"), np.zeros((3, 0)), ids=np.arange(3))
    assert "at least one column besides the id and the label" in refusal(lambda: Preparation().fit(empty))


def test_missing_numbers_are_named() -> None:
    rows = mixed_rows(20, holes=False)
    rows.numbers[[3, 7], 2] = np.nan
    rows.numbers[9, 0] = np.nan
    table = MemoryTable(rows, "data.csv")
    assert refusal(lambda: Preparation(encode="onehot").fit(table)) == (
        "data.csv must have a number in every row; 3 are missing or NaN ('a' 1, 'c' 2), the first in row 3 (id 'r3') "
        "of column 'c': use impute='median', 'mean' or 'drop'."
    )
    fitted = Preparation(encode="onehot").fit(mixed_rows(20, holes=False))
    message = refusal(lambda: fitted.transform(table))
    assert "column 'c' lacks 2" in message and "row 3" in message and "fit a model with impute=" in message


def test_categories_are_named_all_at_once() -> None:
    message = refusal(lambda: Preparation(impute="median").fit(MemoryTable(mixed_rows(), "data.csv")))
    assert message == (
        "data.csv must hold numbers, or be told what to do with the other columns; 'colour' (3 different values), "
        "'home town' (3 different values) hold texts or dates: name one with label or id, leave some out with drop "
        "(of kpca.io.open_table or table_of), or use encode='onehot'."
    )
    many = category_rows([f"v{row}" for row in range(150_000)])
    assert "at least " in refusal(lambda: Preparation().fit(many))
    wide = Rows(
        Layout((), tuple(f"c{i}" for i in range(300))), np.zeros((1, 0)), {f"c{i}": texts("x") for i in range(300)}
    )
    assert "and 280 more" in refusal(lambda: Preparation().fit(wide))


@pytest.mark.parametrize("impute", [None, "median", "mean", "drop"])
def test_columns_without_anything(impute: str | None) -> None:
    rows = mixed_rows(30)
    rows.numbers[:, 1] = np.nan
    rows = replace(rows, categories={**rows.categories, "colour": texts(*[None] * 30)})
    message = refusal(lambda: Preparation(encode="onehot", impute=impute).fit(rows))
    assert "there is nothing in 'b b', 'colour': leave them out with drop" in message


def test_all_rows_dropped() -> None:
    X = np.array([[1.0, np.nan], [np.nan, 2.0]])
    assert "each of its 2 rows has some" in refusal(lambda: Preparation(impute="drop").fit(numeric_rows(X)))
    fitted = Preparation(impute="drop").fit(numeric_rows(np.eye(2)))
    for limit in (None, 1):
        with kpca.config(memory_limit=limit):
            assert "each of its 2 rows has some" in refusal(lambda: fitted.transform(numeric_rows(X)))


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("impute", [None, "median", "drop"])
def test_infinity(make: Any, impute: str | None) -> None:
    X = np.ones((4, 3))
    X[2, 1] = -np.inf
    message = refusal(lambda: Preparation(impute=impute).fit(numeric_rows(make(X))))
    assert "infinity in row 2 (counted from 0) of column 'x1'" in message
    fitted = Preparation(impute=impute).fit(numeric_rows(make(np.ones((4, 3)))))
    assert "infinity in row 2 (counted from 0) of column 'x1'" in refusal(
        lambda: fitted.transform(numeric_rows(make(X)))
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", ["standard", "robust", "minmax"])
def test_huge_numbers(scale: str) -> None:
    X = np.array([[1e300, 1.0], [-1e300, 2.0], [1.7e308, 3.0], [-1.7e308, 4.0], [1.7e308, 5.0], [-1.7e308, 6.0]])
    rows = numeric_rows(X)
    assert "that of 'x0' is too large or too small" in refusal(lambda: Preparation(scale=scale).fit(rows))
    fine = Preparation(scale=scale).fit_transform(numeric_rows(X[:, 1:]))
    assert np.isfinite(fine).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", ["none", "standard", "robust", "minmax"])
@pytest.mark.parametrize("impute", [None, "median", "mean", "drop"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_row_constants_and_tiny_numbers(scale: str, impute: str | None, dtype: Any) -> None:
    for X in (np.array([[3.0, -7e8]]), np.full((5, 2), 1e9), np.full((4, 1), 1e-40), np.zeros((3, 2))):
        prepared = Preparation(scale=scale, impute=impute).fit_transform(numeric_rows(X.astype(dtype)))
        assert prepared.dtype == dtype and np.isfinite(prepared).all()
        if scale != "none":
            assert_array_equal(prepared, np.zeros(X.shape))


def test_a_float64_file_for_a_float32_model() -> None:
    fitted = Preparation().fit(numeric_rows(np.ones((3, 2), dtype=np.float32)))
    assert "infinity in row 1" in refusal(lambda: fitted.transform(numeric_rows(np.array([[1.0, 1.0], [1e200, 1.0]]))))


def of_dates() -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"a": np.arange(3.0), "when": pandas.date_range("2024-01-01", periods=3)})


@pytest.mark.parametrize(
    ("settings", "X"),
    [
        ({}, of_dates),
        ({"encode": "onehot", "max_categories": 2}, lambda: category_rows(["a", "b", "c"])),
        ({}, lambda: numeric_rows(np.array([[1.0, np.nan], [2.0, 3.0]]))),
        ({"impute": "drop"}, lambda: numeric_rows(np.array([[1.0, np.nan]]))),
        ({"impute": "mean"}, lambda: numeric_rows(np.full((2, 2), np.nan))),
        ({}, lambda: numeric_rows(np.array([[1.0, np.inf]]))),
        ({"scale": "standard"}, lambda: numeric_rows(np.array([[1e308], [-1e308]]))),
        ({}, lambda: text_rows(["!", "?"])),
        ({}, lambda: Rows(Layout((), id="key"), np.zeros((3, 0)), ids=np.arange(3))),
    ],
)
def test_messages_name_parameters_here_and_options_on_the_command_line(settings: dict[str, Any], X: Any) -> None:
    """What Preparation has no parameter for is one of the functions that make tables, and that is said."""
    with pytest.raises(InputError) as caught:
        Preparation(**settings).fit(X())
    named: list[str] = []
    told = caught.value.told(lambda setting: named.append(setting.name) or f"--{setting.name}")
    assert named and "kpca.io" not in told and "--" not in str(caught.value)
    own, tables = set(Preparation().get_params()), set(signature(kpca.io.table_of).parameters)
    assert set(named) <= own | tables
    assert ("(of kpca.io.open_table or table_of)" in str(caught.value)) == bool(set(named) - own)


# --- other tables -----------------------------------------------------------------------------------------------------


def shuffled(rows: Rows) -> Rows:
    """The same columns in another order, with one more of each kind, and without id and label."""
    layout = Layout(("d", "more", "b b", "a", "c"), ("home town", "other", "colour"))
    numbers = np.column_stack([rows.numbers[:, 3], np.ones(len(rows)), rows.numbers[:, [1, 0, 2]]])
    return Rows(layout, numbers, {**rows.categories, "other": texts(*["x"] * len(rows))})


def test_columns_go_by_name() -> None:
    rows = mixed_rows()
    preparation = Preparation(encode="onehot", impute="median", scale="standard").fit(rows)
    expected = preparation.transform(rows)
    assert_array_equal(preparation.transform(shuffled(rows)), expected)
    assert_array_equal(preparation.prepare(shuffled(rows)).X, expected)
    table = preparation.select(MemoryTable(shuffled(rows), "new.csv"))
    assert (table.name, table.n_rows, table.layout) == ("new.csv", 300, replace(rows.layout, id=None, label=None))
    assert_array_equal(table.whole().numbers, rows.numbers)
    assert sum(len(chunk) for chunk in table.chunks(7)) == 300
    same = MemoryTable(rows)
    assert preparation.select(same) is same


def test_sparse_columns_go_by_name() -> None:
    X = sparse.random_array((20, 4), density=0.5, format="csr", rng=np.random.default_rng(0))
    preparation = Preparation().fit(numeric_rows(X))
    other = Rows(Layout(("x3", "x1", "y", "x0", "x2")), sparse.csr_array(X[:, [3, 1, 1, 0, 2]]))
    assert_array_equal(preparation.transform(other).toarray(), X.toarray())
    held = Rows(Layout(("x0", "x1", "x2"), ("x3",)), X[:, :3], {"x3": texts(*["?"] * 20)})
    assert "must hold numbers in 'x3'" in refusal(lambda: preparation.transform(held))


def test_columns_that_are_not_there_are_named() -> None:
    rows = mixed_rows(30, holes=False)
    preparation = Preparation(encode="onehot").fit(rows)
    renamed = replace(rows, layout=replace(rows.layout, numbers=("a", "b_b", "c", "x")))
    message = refusal(lambda: preparation.select(MemoryTable(renamed, "new.csv")))
    assert message == (
        "new.csv must have the columns of the fit; it lacks 'b b', 'd' (did you mean 'b_b'?): "
        "add them, or fit a model without them."
    )
    names = tuple(f"gene {number}" for number in range(5000))
    wide = Preparation().fit(Rows(Layout(names), np.zeros((2, 5000))))
    assert "and 4,986 more" in refusal(lambda: wide.transform(Rows(Layout(names[:2]), np.zeros((2, 2)))))


def test_columns_without_names_must_be_as_many() -> None:
    preparation = Preparation().fit(numeric_rows(np.eye(3)))
    for columns in (2, 4):
        message = refusal(lambda columns=columns: preparation.transform(numeric_rows(np.zeros((1, columns)))))
        assert f"has {columns} features, but Preparation is expecting 3 features" in message
    named = Rows(Layout(("more", "x2", "x0", "x1")), np.arange(4.0)[None])
    assert_array_equal(preparation.transform(named), [[2, 3, 1]])


def test_texts_in_a_column_of_numbers() -> None:
    preparation = Preparation(impute="median").fit(numeric_rows(np.arange(6.0).reshape(3, 2)))
    new = Rows(Layout(("x1",), ("x0",)), np.ones((3, 1)), {"x0": texts("1.5", None, "many")}, first=40)
    message = refusal(lambda: preparation.transform(MemoryTable(new, "new.csv")))
    assert "new.csv must hold numbers in column 'x0', as at the fit; row 42 (counted from 0) holds 'many'" in message
    readable = replace(new, categories={"x0": texts("1.5", None, " 7 ")})
    assert_array_equal(preparation.transform(readable), [[1.5, 1], [2, 1], [7, 1]])


def test_numbers_in_a_column_of_texts() -> None:
    preparation = Preparation(encode="onehot").fit(category_rows(["1", "2", "2.5"]))
    new = Rows(Layout(("kind",)), np.array([[2.0], [2.5], [np.nan]], dtype=np.float32))
    with pytest.warns(UserWarning, match="a missing value"):
        assert_array_equal(preparation.transform(new), [[0, 1, 0], [0, 0, 1], [0, 0, 0]])


def test_roles_of_a_new_table() -> None:
    """The label of the fit is no number, the id of the new table counts, and a text may come as a category."""
    rows = Rows(
        Layout(("a",), text="t", id="k", label="y"), np.ones((2, 1)), {}, texts("up far", "far up"), np.arange(2)
    )
    rows = replace(rows, labels=np.arange(2))
    preparation = Preparation().fit(rows)
    new = Rows(Layout(("y", "a", "k"), ("t", "name")), np.arange(6.0).reshape(2, 3), {"t": texts("far", "up")})
    new = replace(new, categories={**new.categories, "name": texts("p", "q")})
    table = preparation.select(MemoryTable(new))
    assert table.layout == rows.layout
    found = preparation.prepare(table.whole())
    assert_array_equal(found.labels, [0, 3])
    assert_array_equal(found.ids, [2, 5])
    named = replace(new, layout=replace(new.layout, categories=("t",), id="name"), ids=texts("p", "q"))
    named = replace(named, categories={"t": new.categories["t"]})
    assert preparation.select(MemoryTable(named)).layout == replace(rows.layout, id="name")


def test_the_table_may_change_roles_itself() -> None:
    """A file reads a column as text that would be a number: leading zeros stay."""

    class File(MemoryTable):
        def with_layout(self, layout: Layout) -> MemoryTable:
            return MemoryTable(Rows(layout, np.zeros((2, 0)), {"kind": texts("007", "7")}), self.name)

    preparation = Preparation(encode="onehot").fit(category_rows(["007", "7", "x"]))
    assert_array_equal(preparation.transform(File(numeric_rows_named("kind", [7.0, 7.0]))), [[1, 0, 0], [0, 1, 0]])


def numeric_rows_named(name: str, values: list[float]) -> Rows:
    return Rows(Layout((name,)), np.array(values)[:, None])


def test_documents_that_come_as_numbers() -> None:
    preparation = Preparation().fit(text_rows(["12 34", "34 56", "12 56"]))
    assert preparation.transform(numeric_rows_named("review", [12.0, np.nan])).nnz == 1


def test_images_of_another_size() -> None:
    small = MemoryTable(numeric_rows(np.ones((2, 6))), "old", image_shape=(2, 3))
    large = MemoryTable(numeric_rows(np.ones((2, 8))), "new", image_shape=(2, 4))
    preparation = Preparation().fit(small)
    assert preparation.image_shape_ == (2, 3)
    assert "images of 2 × 3 pixels; got 2 × 4" in refusal(lambda: preparation.transform(large))
