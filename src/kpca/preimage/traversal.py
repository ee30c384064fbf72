"""A walk along a component, in the space of the data."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kpca.errors import InputError

FloatArray = NDArray[Any]


def traverse(
    model: Any, component: int = 0, steps: int | FloatArray = 9, *, span: float = 2.0, around: Any = None
) -> tuple[FloatArray, FloatArray]:
    """Return the pre-images of points along a component: what it looks like in the data.

    Parameters
    ----------
    model : a fitted KernelPCA or IncrementalKernelPCA that has a way back (`preimage="auto"`, say).
    component : its number, from 0.
    steps : how many points, evenly spread over `span` standard deviations either way; or the positions themselves.
    around : None starts from the mean in feature space, a row of data from its scores.

    Returns
    -------
    positions : (s,) in standard deviations of the component.
    rows : (s, d)

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> import kpca
    >>> X, _ = load_digits(return_X_y=True)
    >>> model = kpca.KernelPCA(8, kernel="rbf", gamma="median", preimage="fixed-point").fit(X[:300])
    >>> positions, rows = kpca.preimage.traverse(model, 0, steps=5)
    >>> positions.tolist(), rows.shape
    ([-2.0, -1.0, 0.0, 1.0, 2.0], (5, 64))
    """
    check_is_fitted(model)
    k = int(model.n_components_)
    if isinstance(component, bool) or not isinstance(component, Integral) or not 0 <= component < k:
        raise InputError(f"component must be a whole number from 0 to {k - 1}; got {component!r}.")
    if isinstance(steps, Integral) and not isinstance(steps, bool):
        if steps < 1 or isinstance(span, bool) or not isinstance(span, Real) or not np.isfinite(float(span)):
            raise InputError(f"steps must be at least 1 and span a finite number; got {steps!r} and {span!r}.")
        positions = np.linspace(-span, span, int(steps)) if steps > 1 else np.zeros(1)
    else:
        positions = _positions(steps)
    scores = np.zeros((len(positions), k), dtype=model.eigenvalues_.dtype)
    if around is not None:
        row = around if np.ndim(around) == 2 else np.atleast_2d(np.asarray(around))  # a frame keeps its names
        if row.shape[0] != 1:
            raise InputError(f"around must be one row of data; got {row.shape[0]}.")
        scores[:] = model.transform(row)
    deviation = float(np.sqrt(model.explained_variance_[component]))
    scores[:, component] = positions * deviation + (scores[:, component] if around is not None else 0.0)
    return positions, model.inverse_transform(scores)


def _positions(steps: Any) -> FloatArray:
    """Return positions that were given one by one."""
    message = f"steps must be a number of points or a list of finite positions; got {steps!r}."
    try:
        positions = np.asarray(steps, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(message) from error
    if positions.ndim != 1 or not len(positions) or not np.isfinite(positions).all():
        raise InputError(message)
    return positions
