"""All classes that a file may hold. Nothing else is ever written or built: a new class is a new row."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from kpca.io.portable import _engine, _estimators, _sklearn
from kpca.io.portable._estimators import SETTINGS, WAYS
from kpca.io.portable.spec import Misfit, Row

ROWS: tuple[Row, ...] = (
    *_engine.KERNELS,
    *_engine.FEATURES,
    *_engine.PROJECTIONS,
    *_engine.STREAMS,
    *SETTINGS,
    *WAYS,
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


# -- What a file says of its model before it is loaded: classes, rows, columns, components ----------------------------

# name -> whether it is a number (or unknown) rather than a truth value
SIZES = ("fitted", "rows", "columns", "components")


def steps_of(model: Any) -> list[Any]:
    """Return the steps of a pipeline, those of pipelines in it included; of anything else, itself."""
    steps = vars(model).get("steps")
    if type(model).__name__ != "Pipeline" or not isinstance(steps, list):
        return [model]
    real = [step for _, step in steps if step is not None and not isinstance(step, str)]
    return [inner for step in real for inner in steps_of(step)]


def classes_of(model: Any) -> list[str]:
    """Return the tags of the steps of a model."""
    rows = [row_of(step) for step in steps_of(model)]
    return [row.tag for row in rows if row is not None]


def sizes_of(model: Any) -> dict[str, Any]:
    """Return whether a model is fitted, and to what; None where that is not known."""
    steps = steps_of(model)
    if not steps:
        raise Misfit("a pipeline must have a step that does something")
    last = steps[-1]
    row = row_of(last)
    fitted = row is not None and bool(set(row.fitted) & set(vars(last)))
    if not fitted:
        return dict.fromkeys(SIZES, None) | {"fitted": False}
    columns = next((vars(step)["n_features_in_"] for step in steps if "n_features_in_" in vars(step)), None)
    rows, components = _rows_and_components(last)
    found = (True, rows, columns, components)
    return {
        name: value if value is None or value is True else int(value) for name, value in zip(SIZES, found, strict=True)
    }


def _rows_and_components(model: Any) -> tuple[int | None, int | None]:
    known = vars(model)
    if "eigenvectors_" in known:
        return len(known["eigenvectors_"]), known["n_components_"]
    if "_stream" in known:
        stream, wanted = known["_stream"], known["n_components"]
        rows = stream.rows_waiting if stream.scatter is None else stream.scatter.rows
        # what a share of the variance comes to is found out when it is asked for
        whole = isinstance(wanted, Integral) and not isinstance(wanted, bool)
        return rows, int(wanted) if whole else None
    if "limits_" in known and "_measure" in known:
        return known["limits_"].rows, len(known["_measure"].variances)
    return None, known.get("rank_")
