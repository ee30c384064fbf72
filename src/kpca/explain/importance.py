"""Which variables move the components: the size of gradients of the scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.text import data_frame, short_name, text_table
from kpca._base.validation import whole_number
from kpca.explain.subject import (
    SHOWN,
    Ranked,
    Subject,
    chosen_components,
    component_title,
    finite,
    left_out,
    number,
    shown_components,
    subject_of,
)

FloatArray = NDArray[Any]
# Numbers of Jacobians that are held at once: 64 MiB.
_NUMBERS_AT_ONCE = 2**23


@dataclass(frozen=True, eq=False)
class Importance(Ranked):
    """How much each variable moves the scores; `print` shows a table, the most important first.

    Attributes
    ----------
    names : of the variables.
    values : (d,), the mean over the rows of the norm over components of the gradient.
    by_component : (c, d), the mean of the absolute gradient of each component.
    components : (c,), which components, counted from 0.
    scaled : True if the figures are changes of scores per standard deviation of a column, else per unit.
    weighted : True if the components count in `values` by their share of the variance.
    rows : how many rows the means are over.
    """

    names: tuple[str, ...]
    values: FloatArray
    by_component: FloatArray
    components: NDArray[np.intp]
    scaled: bool
    weighted: bool
    rows: int

    def to_pandas(self) -> Any:
        """Return a data frame, a row per variable in the order of the columns, overall and per component."""
        titles = [component_title(int(j)) for j in self.components]
        columns = {"overall": self.values, **dict(zip(titles, self.by_component, strict=True))}
        return data_frame(columns, index=self.names, index_name="variable")

    def __str__(self) -> str:
        unit = "standard deviation" if self.scaled else "unit"
        shown = shown_components(len(self.components))
        titles = ["variable", "overall", *(component_title(int(j)) for j in self.components[:shown])]
        lines = [
            [
                short_name(self.names[m]),
                number(self.values[m]),
                *(number(value) for value in self.by_component[:shown, m]),
            ]
            for m in self.order[:SHOWN]
        ]
        head = f"Change of scores per {unit} of a variable, mean over {self.rows:,} rows."
        return "\n".join(
            [head, "", *text_table(titles, lines), *left_out(len(self.names), len(self.components))],
        )


def importance(
    model: Any,
    X: Any = None,
    *,
    components: Any = None,
    max_rows: int = 1000,
    scaled: bool = True,
    weighted: bool = False,
    names: Any = None,
) -> Importance:
    """Return how much each variable moves the components: the mean size of the gradients of the scores.

    For variable m that is the mean over rows x of |dt_j/dx^m| per component j, and of their norm over all chosen
    components. It costs as much as d products with the kernel matrix, and no more memory than a few tiles. Kernel PCA
    is unsupervised, so noise that has variance moves components too: look at the components that stand out only
    (`KernelPCA("auto")` or `kpca.selection.n_components`), or ask `permutation_importance(refit=True)` which variables
    have to do with each other.

    Parameters
    ----------
    model : a fitted KernelPCA, IncrementalKernelPCA or KernelPCADetector (whose lags are summed up), or a Pipeline that
        ends in one: its other steps then transform X, and the variables are their results.
    X : rows to look at; None is the rows that the model keeps (all of the fit, or landmarks).
    components : which components, counted from 0; None is all.
    max_rows : of more rows than this a sample is used, always the same.
    scaled : multiply by the standard deviations of the columns: what a typical change of a variable does.
    weighted : count components by their share of the variance. For the linear kernel the overall figure is then the
        standard deviation of each variable that the components explain, up to a factor; it depends little on how many
        components there are.
    names : of the columns; None is those of the data frame that was fitted, or x0, x1, ...

    Examples
    --------
    >>> import numpy as np
    >>> from kpca import KernelPCA, explain
    >>> angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 300)
    >>> noise = np.random.default_rng(1).standard_normal((300, 3))
    >>> X = np.column_stack([2 * np.cos(angle), 2 * np.sin(angle), noise])
    >>> found = explain.importance(KernelPCA(2, kernel="rbf", gamma=0.2).fit(X))
    >>> sorted(name for name, _ in found.top(2))
    ['x0', 'x1']
    """
    most = whole_number("max_rows", max_rows, 1)
    subject = subject_of(model, X, names, most=most).sampled(most)
    chosen = chosen_components(components, subject.model.n_components_)
    weights = _shares(subject, chosen) if weighted else np.ones(len(chosen))
    by_component, overall = gradient_sizes(subject, chosen, weights)
    scale = subject.scale(scaled)
    return Importance(
        subject.names,
        finite(subject.per_variable(overall * scale)),
        subject.per_variable(by_component * scale),
        chosen,
        scaled,
        weighted,
        subject.rows.shape[0],
    )


def gradient_sizes(
    subject: Subject, components: NDArray[np.intp], weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the mean over rows of |dt_j/dx|, and of (sum_j w_j (dt_j/dx)^2)^1/2.  # shapes: (c, d), (d,)"""
    derivatives = subject.derivatives(components, "importance")
    m, d = subject.rows.shape
    each, overall = np.zeros((len(components), d)), np.zeros(d)
    for _, rows in subject.tiles(len(components) * d, _NUMBERS_AT_ONCE):
        J = derivatives.jacobian(rows)  # shape: (tile, c, d)
        each += np.abs(J).sum(axis=0)
        np.square(J, out=J)
        overall += np.sqrt(np.einsum("ijm,j->im", J, weights)).sum(axis=0)
    return each / m, overall / m


def _shares(subject: Subject, components: NDArray[np.intp]) -> FloatArray:
    """Return the components' shares of their variance, which sum to 1.  # shape: (c,)"""
    variances = np.maximum(subject.model.explained_variance_[components].astype(np.float64), 0.0)
    total = float(variances.sum())
    return variances / total if total > 0 else np.full(len(components), 1.0 / len(components))
