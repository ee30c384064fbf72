"""Which variables the components go by: those with large gradients of the scores, those that are missed when shuffled.

Gradients need a kernel that has them. Shuffling a column and looking at what is lost serves any kernel that compares
rows.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.threads import in_order, single_threaded
from kpca._base.validation import seed_of, whole_number
from kpca.estimators.n_components import leading_values
from kpca.explain.subject import Explained, Ranked, chosen_components, component_title, finite, subject_of

FloatArray = NDArray[Any]
_NUMBERS_AT_ONCE = 2**23  # numbers of Jacobians that are held at once: 64 MiB


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
        return self._frame({"overall": self.values} | self._titled(self.by_component))

    def __str__(self) -> str:
        unit = "standard deviation" if self.scaled else "unit"
        head = f"Change of scores per {unit} of a variable, mean over {self.rows:,} rows."
        return self._table(head, {"overall": self.values}, self.by_component)


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
    weights = np.ones(len(chosen))
    if weighted:  # by their shares of their variance, which sum to 1
        variances = np.maximum(subject.model.explained_variance_[chosen].astype(np.float64), 0.0)
        weights = variances / variances.sum() if variances.sum() > 0 else weights / len(chosen)
    m, d = subject.rows.shape
    each, overall = np.zeros((len(chosen), d)), np.zeros(d)  # of |dt_j/dx|, and of (sum_j w_j (dt_j/dx)^2)^1/2
    for _, J in subject.jacobians(chosen, "importance", _NUMBERS_AT_ONCE):
        each += np.abs(J).sum(axis=0)
        np.square(J, out=J)
        overall += np.sqrt(np.einsum("ijm,j->im", J, weights)).sum(axis=0)
    scale = subject.scale(scaled)
    values = finite(subject.per_variable(overall / m * scale))
    by_component = subject.per_variable(each / m * scale)
    return Importance(subject.names, values, by_component, chosen, scaled, weighted, m)


@dataclass(frozen=True, eq=False)
class PermutationImportance(Ranked):
    """What the components lose when a column is shuffled; `print` shows a table, the most important variable first.

    Attributes
    ----------
    names : of the variables.
    values, deviations : (d,), the share of the variance of all chosen components that is lost, mean and standard
        deviation over the repeats.
    by_component, by_component_deviations : (c, d), the same for each component.
    components : (c,), which components, counted from 0.
    refit : True if the model was fitted anew to the shuffled rows.
    repeats, rows : how often each column was shuffled, and how many rows there were.
    """

    names: tuple[str, ...]
    values: FloatArray
    deviations: FloatArray
    by_component: FloatArray
    by_component_deviations: FloatArray
    components: NDArray[np.intp]
    refit: bool
    repeats: int
    rows: int

    def to_pandas(self) -> Any:
        """Return a data frame, a row per variable in the order of the columns, overall and per component."""
        columns = {"overall": self.values, "overall deviation": self.deviations}
        for row, j in enumerate(self.components):
            title = component_title(j)
            columns |= {title: self.by_component[row], f"{title} deviation": self.by_component_deviations[row]}
        return self._frame(columns)

    def __str__(self) -> str:
        then = " and the model fitted anew" if self.refit else ""
        head = (
            f"Share of the variance that is lost with a column shuffled{then}, mean of {self.repeats} times over "
            f"{self.rows:,} rows."
        )
        return self._table(head, {"overall": self.values, "±": self.deviations}, self.by_component)


def permutation_importance(
    model: Any,
    X: Any = None,
    *,
    components: Any = None,
    repeats: int = 5,
    max_rows: int = 500,
    random_state: Any = 0,
    refit: bool = False,
    names: Any = None,
) -> PermutationImportance:
    """Return how much of the variance of each component is lost when a column is shuffled.

    That is half the mean squared change of the scores over their variance: 0 for a variable that the component does not
    use, 1 if nothing is left of the component. Overall, components count by their variance. It needs no gradients, but
    the scores of all rows for each column.

    With `refit` the question is another one: the model is fitted anew to the rows with the shuffled column, and the
    figure is the share of the components' variance that is gone. A variable that merely has variance loses nothing by
    being shuffled, one that belongs to a structure takes the structure with it: so variables of rings, clusters and
    products come out first among noise of the same variance, without knowing which components they are in. Take an rbf
    kernel narrower than usual, about four times the gamma of "median", and about as many components as columns. Figures
    below 0 are chance, and positive ones of about that size are as well: deviations do not tell, as they are those of
    the shuffles and not of the rows (in noise, means of 4 deviations occur). The more columns of noise there are the
    less is seen: a ring was found among 4 of them, and not among 8; clusters and products still among 12.

    Parameters
    ----------
    model, X, components, names : as in `importance`; any kernel will do that compares rows.
    repeats : how often each column is shuffled; every column in the same ways.
    max_rows : of more rows than this a sample is used.
    random_state : seed of the sample and the shuffles.
    refit : fit anew, to the same kernel with its parameters, for each column and repeat; exactly, also where the model
        is an approximation.

    Examples
    --------
    >>> import numpy as np
    >>> from kpca import KernelPCA, explain
    >>> X = np.random.default_rng(0).standard_normal((200, 3)) * [3.0, 1.0, 0.0]
    >>> found = explain.permutation_importance(KernelPCA(1).fit(X))
    >>> bool(found.values[0] > 0.9), float(found.values[2])
    (True, 0.0)
    """
    most, times = whole_number("max_rows", max_rows, 2), whole_number("repeats", repeats, 1)
    seed = seed_of(random_state)
    subject = subject_of(model, X, names, most=most).sampled(most, seed).dense()
    if subject.rows.shape[0] < 2:
        raise InputError("Columns can be shuffled from two rows on; X has 1: give more rows.")
    chosen = chosen_components(components, subject.model.n_components_)
    m = subject.rows.shape[0]
    shuffles = [np.random.default_rng([seed, repeat]).permutation(m) for repeat in range(times)]
    shares = finite(_lost(subject, chosen, shuffles, refit=refit))  # shape: (repeats, c + 1, d)
    means, deviations = shares.mean(axis=0), shares.std(axis=0, ddof=min(1, times - 1))
    overall, each = (means[-1], deviations[-1]), (means[:-1], deviations[:-1])
    return PermutationImportance(subject.names, *overall, *each, chosen, refit, times, m)


def _lost(
    subject: Explained, components: NDArray[np.intp], shuffles: list[NDArray[np.intp]], *, refit: bool
) -> FloatArray:
    """Return what each component loses of its variance by each shuffle of each column, 0 where there is none to lose.

    That is half the mean squared change of scores, or with `refit` by how much eigenvalues fall; the last row is over
    all components.  # shape: (repeats, c + 1, d)
    """
    d, count = len(subject.names), int(components.max()) + 1
    model, kernel = subject.model, subject.model.kernel_
    assert kernel is not None  # a subject has rows

    def values(rows: FloatArray) -> FloatArray:
        leading = leading_values(kernel, rows, min(count, len(rows)), center=bool(model.center))[0]
        return np.pad(leading, (0, count - len(leading)))[components]

    with single_threaded() if refit else nullcontext():
        before = values(subject.rows) if refit else subject.scores(subject.rows)[:, components]
        variances = before if refit else before.var(axis=0)
        total = np.append(variances, variances.sum())
        shares = np.zeros((len(shuffles), len(total), d))
        still = subject.per_variable(np.ptp(subject.rows, axis=0)) == 0
        cases = [(number, column) for column in range(d) if not still[column] for number in range(len(shuffles))]

        def work(case: tuple[int, int]) -> FloatArray:
            number, column = case
            rows = subject.rows.copy()
            rows[:, column::d] = rows[shuffles[number], column::d]  # with its past, where there are lags
            if refit:
                lost = before - values(rows)
            else:
                moved = subject.scores(rows)[:, components] - before
                lost = 0.5 * np.einsum("ij,ij->j", moved, moved) / len(moved)
            return np.append(lost, lost.sum())

        def commit(case: tuple[int, int], lost: FloatArray) -> None:
            number, column = case
            shares[number, :, column] = np.divide(lost, total, out=np.zeros_like(total), where=total > 0)

        in_order(cases, lambda: work, commit, subject.threads if refit else 1)  # scores have threads of their own
    return shares
