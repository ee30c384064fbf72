"""All classes that a file may hold. Nothing else is ever written or built: a new class is a new row."""

from __future__ import annotations

from typing import Any

from kpca.io.portable import _engine, _estimators, _sklearn, _ways
from kpca.io.portable.rows import Row

ROWS: tuple[Row, ...] = (
    *_engine.KERNELS,
    *_engine.FEATURES,
    *_engine.PROJECTIONS,
    *_engine.STREAMS,
    *_ways.SETTINGS,
    *_ways.WAYS,
    *_estimators.ESTIMATORS,
    *_sklearn.STEPS,
    *_sklearn.REGRESSORS,
    *_sklearn.GAUSSIAN,
    *_sklearn.SPLITTERS,
)
_BY_TAG: dict[str, Row] = {row.tag: row for row in ROWS}


def row_of_tag(tag: Any) -> Row | None:
    """Return the row that a file names."""
    return _BY_TAG.get(tag) if isinstance(tag, str) else None


def row_of(item: Any) -> Row | None:
    """Return the row of an object's very class; a subclass has none, as its code is not in a file."""
    return row_of_class(type(item))


def row_of_class(kind: type) -> Row | None:
    """Return the row of a class."""
    # classes are loaded only where their name fits: most are never needed
    return next((row for row in ROWS if row.name == kind.__name__ and row.cls is kind), None)


def roles_of(item: Any) -> frozenset[str]:
    """Return what an object can be used as."""
    row = row_of(item)
    return frozenset() if row is None else row.roles
