"""What pictures take from a fitted model: scores, shares of variance with their bounds, and what these are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kpca._base.errors import InputError

FloatArray = NDArray[Any]


@dataclass(frozen=True)
class Facts:
    """The spectrum of a model, as far as the model tells it."""

    eigenvalues: FloatArray | None = None  # shape: (k,)
    shares: FloatArray | None = None  # of the variance, from 0 to 1; shape: (k,)
    bounds: FloatArray | None = None  # of the eigenvalues; shape: (k, 2)
    estimate: bool = False  # the bounds are a measured estimate, of random features, and certify nothing
    centred: bool = True  # else shares are of second moments about the origin

    @property
    def of_what(self) -> str:
        """What the shares are shares of."""
        return "variance" if self.centred else "second moment"

    def axis_name(self, component: int) -> str:
        """Return what an axis of scores is called."""
        name = f"component {component + 1}"
        if self.shares is None or component >= len(self.shares):
            return name
        return f"{name} ({100 * float(self.shares[component]):.1f} % of {self.of_what})"


def final_step(model: Any) -> tuple[Any, Any]:
    """Return what comes before the model, None if nothing does, and the model: the last step of a pipeline."""
    if hasattr(model, "steps") and hasattr(model, "named_steps"):
        final = model.steps[-1][1]
        if not hasattr(final, "transform"):
            raise InputError(
                f"The last step of the pipeline must be a model with scores; got {type(final).__name__}: leave it out, "
                "pipeline[:-1]."
            )
        return (model[:-1] if len(model.steps) > 1 else None), final
    return None, model


def facts_of(model: Any) -> Facts:
    """Return the spectrum of a fitted model, of the last step of a pipeline."""
    _, final = final_step(model)
    if hasattr(final, "fit"):
        check_is_fitted(final)
    values = getattr(final, "eigenvalues_", None)
    if values is None:
        values = getattr(final, "explained_variance_", None)
    shares = getattr(final, "explained_variance_ratio_", None)
    bounds = getattr(final, "eigenvalue_bounds_", None)
    features = getattr(final, "feature_map_", None)
    return Facts(
        eigenvalues=None if values is None else np.asarray(values, dtype=np.float64),
        shares=None if shares is None else np.asarray(shares, dtype=np.float64),
        bounds=None if bounds is None else np.asarray(bounds, dtype=np.float64),
        estimate=not getattr(features, "exact", True),
        centred=bool(getattr(final, "center", True)),
    )


def scores_of(model: Any, X: Any) -> FloatArray:
    """Return the scores of rows as a plain array, whatever container the model gives.  # shape: (m, k)"""
    final_step(model)
    return as_scores(model.transform(X))


def as_scores(scores: Any) -> FloatArray:
    """Return scores as an array, after a look whether they are finite numbers.  # shape: (m, k)"""
    try:
        found = np.asarray(scores.to_numpy() if hasattr(scores, "to_numpy") else scores, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("scores must be an array of numbers, a row per row of data; got something else.") from error
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim != 2 or not found.shape[1]:
        raise InputError(f"scores must have a row per row of data and 1 column or more; got shape {found.shape}.")
    if not np.isfinite(found).all():
        bad = int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])
        raise InputError(f"scores must be finite; those of row {bad} are not: leave such rows out.")
    return found


def chosen_components(components: Any, available: int, *, most: int) -> tuple[int, ...]:
    """Return the numbers of the components to show, from 0, after a look that there are such."""
    words = {2: "one or two", 3: "one, two or three"}.get(most, "some")
    try:
        found = tuple(components) if np.ndim(components) else (components,)
    except TypeError:
        found = ()
    whole = all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in found)
    if not whole or not 1 <= len(found) <= most or not all(0 <= one < available for one in found):
        raise InputError(f"components must be {words} of 0 to {available - 1}; got {components!r}.")
    return tuple(int(one) for one in found)
