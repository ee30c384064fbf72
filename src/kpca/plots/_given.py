"""What pictures are given: fitted models, numbers and names, checked and ready to be written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kpca._base.errors import InputError

FloatArray = NDArray[Any]
_USUAL = (1e-6, 1e9)  # sizes of numbers whose scales are written as they are


@dataclass(frozen=True)
class Facts:
    """The spectrum of a model, as far as the model tells it."""

    eigenvalues: FloatArray | None = None  # shape: (k,)
    shares: FloatArray | None = None  # of the variance, from 0 to 1; shape: (k,)
    bounds: FloatArray | None = None  # of the eigenvalues; shape: (k, 2)
    estimate: bool = False  # the bounds are a measured estimate, of random features, and certify nothing
    centred: bool = True  # else shares are of second moments about the origin

    @staticmethod
    def of(shares: Any) -> Facts:
        """Return the facts themselves, or those that shares of the variance tell."""
        return shares if isinstance(shares, Facts) else Facts(shares=None if shares is None else np.ravel(shares))

    def axis_name(self, component: int) -> str:
        """Return what an axis of scores is called."""
        name = f"component {component + 1}"
        if self.shares is None or component >= len(self.shares):
            return name
        of_what = "variance" if self.centred else "second moment"
        return f"{name} ({100 * float(self.shares[component]):.1f} % of {of_what})"


def final_step(model: Any) -> tuple[Any, Any]:
    """Return what comes before the model, None if nothing does, and the model: the last step of a pipeline."""
    if hasattr(model, "steps") and hasattr(model, "named_steps"):
        final = model.steps[-1][1]
        if not hasattr(final, "transform"):
            got = f"got {type(final).__name__}: leave it out, pipeline[:-1]"
            raise InputError(f"The last step of the pipeline must be a model with scores; {got}.")
        return (model[:-1] if len(model.steps) > 1 else None), final
    return None, model


def facts_of(model: Any) -> Facts:
    """Return the spectrum of a fitted model, of the last step of a pipeline."""
    _, final = final_step(model)
    if hasattr(final, "fit"):
        check_is_fitted(final)
    values = "eigenvalues_" if getattr(final, "eigenvalues_", None) is not None else "explained_variance_"
    known = {"eigenvalues": values, "shares": "explained_variance_ratio_", "bounds": "eigenvalue_bounds_"}
    found = {name: getattr(final, attribute, None) for name, attribute in known.items()}
    arrays = {name: as_array(array) for name, array in found.items() if array is not None}
    exact = getattr(getattr(final, "feature_map_", None), "exact", True)
    return Facts(**arrays, estimate=not exact, centred=bool(getattr(final, "center", True)))


def as_array(found: Any) -> FloatArray:
    """Return numbers as a plain array, whatever container a model gave."""
    return np.asarray(found.to_numpy() if hasattr(found, "to_numpy") else found, dtype=np.float64)


def as_scores(scores: Any) -> FloatArray:
    """Return scores as an array, after a look whether they are finite numbers.  # shape: (m, k)"""
    try:
        found = as_array(scores)
    except (TypeError, ValueError) as error:
        raise InputError("scores must be an array of numbers, a row per row of data; got something else.") from error
    found = found[:, None] if found.ndim == 1 else found
    if found.ndim != 2 or not found.shape[1]:
        raise InputError(f"scores must have a row per row of data and 1 column or more; got shape {found.shape}.")
    if not np.isfinite(found).all():
        bad = int(np.flatnonzero(~np.isfinite(found).all(axis=1))[0])
        raise InputError(f"scores must be finite; those of row {bad} are not: leave such rows out.")
    return found


def components_of(components: Any, available: int, what: str, most: float, *, counted: bool = False) -> tuple[int, ...]:
    """Return the components to show, from 0; if `counted`, one number says how many. `what` words the request."""
    if counted and is_whole(components, 1, most):
        return tuple(range(min(int(components), available)))
    found = tuple(components) if np.ndim(components) else () if counted else (components,)
    if not 1 <= len(found) <= most or not all(is_whole(one, 0, available - 1) for one in found):
        raise InputError(f"must be {what} of 0 to {available - 1}", param="components", value=components)
    return tuple(int(one) for one in found)


# -- Numbers and names ------------------------------------------------------------------------------------------------


def is_whole(value: Any, low: int = 0, high: float = np.inf) -> bool:
    """Whether a value is a whole number between two others."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(low <= value <= high)


def whole(name: str, value: Any, what: str, low: int, high: float = np.inf) -> int:
    """Return a whole number between two others; `what` says in words what it must be."""
    if not is_whole(value, low, high):
        raise InputError(f"must be {what}", param=name, value=value)
    return int(value)


def how_many(n: Any) -> int:
    """Return how many variables to show."""
    return whole("n", n, "a whole number of variables to show, 1 or more", 1)


def number_of(which: Any, names: Sequence[str]) -> int | None:
    """Return the number of a variable that is given by its name or its number; None if there is no such variable."""
    if isinstance(which, str) and which in names:
        return names.index(which)
    return int(which) if is_whole(which, 0, len(names) - 1) else None


def numbers_of(name: str, values: Any, ndim: int) -> FloatArray:
    """Return finite numbers as an array, after a look at its shape."""
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be an array of numbers; got {values!r}.") from error
    if found.ndim != ndim or not found.size or not np.isfinite(found).all():
        raise InputError(f"{name} must be finite numbers in {ndim} dimensions; got shape {found.shape} or a gap in it.")
    return found


def power_of(*values: FloatArray, usual: tuple[float, float] = _USUAL) -> int:
    """Return the power of ten to leave out where numbers are too small or too large for a scale, else 0."""
    top = max((float(np.nanmax(np.abs(some), initial=0.0)) for some in values), default=0.0)
    if top == 0.0 or not np.isfinite(top) or usual[0] <= top <= usual[1]:
        return 0
    return int(np.floor(np.log10(top)))


def without(values: FloatArray, power: int) -> FloatArray:
    """Return numbers without a power of ten; in two steps, for extreme powers have no inverse."""
    return values / 10.0 ** (power // 2) / 10.0 ** (power - power // 2) if power else values


def times(power: int) -> str:
    """Return how a power of ten that was left out is written behind a name."""
    return f" (× $10^{{{power}}}$)" if power else ""


def factored(values: FloatArray, meaning: str) -> tuple[FloatArray, str]:
    """Return values without a power of ten that they share, and their meaning with it: fewer zeros to read."""
    power = power_of(values, usual=(1e-2, 1e6))
    return without(values, power), meaning + times(power)


def short(value: float, *, sign: bool = False) -> str:
    """Return a number in three digits, with a true minus; on demand with its sign, whichever that is."""
    if value == 0.0:
        return "0"
    digits = ",.0f" if 1e3 <= abs(value) < 1e6 else ".3g" if float(value).is_integer() else "#.3g"
    return f"{value:{'+' if sign else ''}{digits}}".replace("-", "−").removesuffix(".")
