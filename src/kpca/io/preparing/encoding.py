"""Categories as columns of 0 and 1, by scikit-learn's OneHotEncoder, and back."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import OneHotEncoder

from kpca.io.reading.roles import as_texts, quoted
from kpca.io.rows import Rows, Texts


def encoder_of(values: Iterable[set[str | None]], dtype: np.dtype[Any]) -> OneHotEncoder:
    """Return an encoder of columns that hold these values; a missing one is a value too, and the last."""
    columns: list[list[str | None]] = []
    for found in values:
        texts = sorted(text for text in found if text is not None)
        columns.append([*texts, None] if None in found else [*texts])
    # A table with each value of each column is all the encoder has to see; shorter columns repeat their last value.
    seen = np.empty((max(map(len, columns)), len(columns)), dtype=object)
    for place, column in enumerate(columns):
        seen[:, place] = column + [column[-1]] * (len(seen) - len(column))
    return OneHotEncoder(handle_unknown="ignore", dtype=dtype.type).fit(seen)


def width(encoder: OneHotEncoder | None) -> int:
    """Return the number of columns that an encoder makes."""
    return 0 if encoder is None else sum(len(values) for values in encoder.categories_)


def encoded(encoder: OneHotEncoder, rows: Rows, columns: tuple[str, ...], warned: set[str]) -> Any:
    """Return the categories as CSR; columns with unknown values are warned of, unless they are in `warned`."""
    # What encoder.transform returns, which takes far longer: it sorts each column of each chunk.
    codes = np.empty((len(rows), len(columns)), dtype=np.int64)  # the column of the result, -1 for unknown values
    start = 0
    for place, column in enumerate(columns):
        values, texts = encoder.categories_[place].tolist(), as_texts(rows.categories[column]).tolist()
        found = {value: start + number for number, value in enumerate(values)}
        codes[:, place] = [found.get(text, -1) for text in texts]
        start += len(values)
        if column not in warned and (codes[:, place] < 0).any():
            warned.add(column)
            _warn(column, [text for text in texts if text not in found], len(rows))
    known = codes >= 0
    pointers = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
    ones = np.ones(int(pointers[-1]), dtype=encoder.dtype)
    return sparse.csr_array((ones, codes[known], pointers), shape=(len(rows), start))


def _warn(column: str, unknown: list[str | None], n_rows: int) -> None:
    first = "a missing value" if unknown[0] is None else quoted(unknown[0])
    warnings.warn(
        f"Column {quoted(column)} holds {first}, which the fit has not seen; {len(unknown):,} of {n_rows:,} "
        "rows have such values and are 0 in all of its columns of 0 and 1.",
        stacklevel=3,
    )


def decoded(encoder: OneHotEncoder, X: Any, columns: tuple[str, ...]) -> dict[str, Texts]:
    """Return of each category the value whose column is largest, None where all of them are 0."""
    texts: dict[str, Texts] = {}
    start = 0
    for place, column in enumerate(columns):
        values = np.array(encoder.categories_[place], dtype=object)
        block = X[:, start : start + len(values)]
        block = block.toarray() if sparse.issparse(block) else block
        texts[column] = values[np.argmax(block, axis=1)]
        texts[column][~block.any(axis=1)] = None  # the row had a value that was unknown
        start += len(values)
    return texts


def value_names(encoder: OneHotEncoder, columns: tuple[str, ...]) -> list[str]:
    """Return the names of the columns that an encoder makes: "colour=red", "colour missing"."""
    return [
        f"{column} missing" if value is None else f"{column}={value}"
        for place, column in enumerate(columns)
        for value in encoder.categories_[place].tolist()
    ]
