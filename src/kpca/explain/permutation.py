"""Which variables the components need: what is lost when a column is shuffled. Any kernel that compares rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError
from kpca._base.text import data_frame, short_name, text_table
from kpca._base.threads import in_order, single_threaded
from kpca._base.validation import seed_of, whole_number
from kpca.estimators.n_components import leading_values
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
            title = component_title(int(j))
            columns |= {title: self.by_component[row], f"{title} deviation": self.by_component_deviations[row]}
        return data_frame(columns, index=self.names, index_name="variable")

    def __str__(self) -> str:
        shown = shown_components(len(self.components))
        titles = ["variable", "overall", "±", *(component_title(int(j)) for j in self.components[:shown])]
        lines = [
            [
                short_name(self.names[m]),
                number(self.values[m]),
                number(self.deviations[m]),
                *(number(value) for value in self.by_component[:shown, m]),
            ]
            for m in self.order[:SHOWN]
        ]
        then = " and the model fitted anew" if self.refit else ""
        head = (
            f"Share of the variance that is lost with a column shuffled{then}, mean of {self.repeats} times over "
            f"{self.rows:,} rows."
        )
        return "\n".join([head, "", *text_table(titles, lines), *left_out(len(self.names), len(self.components))])


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
    lost = _lost_anew if refit else _lost_scores
    shares = finite(lost(subject, chosen, _shuffles(subject.rows.shape[0], times, seed)))
    # shape: (repeats, c + 1, d)
    means, deviations = shares.mean(axis=0), shares.std(axis=0, ddof=min(1, times - 1))
    return PermutationImportance(
        subject.names,
        means[-1],
        deviations[-1],
        means[:-1],
        deviations[:-1],
        chosen,
        refit,
        times,
        subject.rows.shape[0],
    )


def _shuffles(m: int, repeats: int, seed: int) -> list[NDArray[np.intp]]:
    return [np.random.default_rng([seed, number]).permutation(m) for number in range(repeats)]


def _lost_scores(subject: Subject, components: NDArray[np.intp], shuffles: list[NDArray[np.intp]]) -> FloatArray:
    """Return half the mean squared change of scores over their variance; the last row is over all components."""
    scores = subject.scores(subject.rows)[:, components]
    variances = scores.var(axis=0)

    def losses(rows: FloatArray) -> FloatArray:
        moved = subject.scores(rows)[:, components] - scores
        halves: FloatArray = 0.5 * np.einsum("ij,ij->j", moved, moved) / len(moved)
        return halves

    return _each_column(subject, shuffles, losses, variances, threads=1)  # scores have threads of their own


def _lost_anew(subject: Subject, components: NDArray[np.intp], shuffles: list[NDArray[np.intp]]) -> FloatArray:
    """Return the share by which eigenvalues fall; the last row is of their sum."""
    kernel, centred, count = subject.model.kernel_, bool(subject.model.center), int(components.max()) + 1
    assert kernel is not None  # a subject has rows

    def values(rows: FloatArray) -> FloatArray:
        found = np.zeros(count)
        leading = leading_values(kernel, rows, min(count, len(rows)), center=centred)[0]
        found[: len(leading)] = leading
        return found[components]

    with single_threaded():
        whole = values(subject.rows)
        return _each_column(subject, shuffles, lambda rows: whole - values(rows), whole, threads=subject.threads)


def _each_column(
    subject: Subject,
    shuffles: list[NDArray[np.intp]],
    losses: Callable[[FloatArray], FloatArray],
    variances: FloatArray,
    threads: int,
) -> FloatArray:
    """Return losses over variances for every column and shuffle, 0 without variance.  # shape: (repeats, c + 1, d)"""
    d = len(subject.names)
    total = np.append(variances, variances.sum())
    shares = np.zeros((len(shuffles), len(total), d))
    still = subject.per_variable(np.ptp(subject.rows, axis=0)) == 0
    cases = [(number, column) for column in range(d) if not still[column] for number in range(len(shuffles))]

    def work(case: tuple[int, int]) -> FloatArray:
        number, column = case
        rows = subject.rows.copy()
        rows[:, column::d] = rows[shuffles[number], column::d]  # with its past, where there are lags
        lost = losses(rows)
        return np.append(lost, lost.sum())

    def commit(case: tuple[int, int], lost: FloatArray) -> None:
        number, column = case
        shares[number, :, column] = np.divide(lost, total, out=np.zeros_like(total), where=total > 0)

    in_order(cases, lambda: work, commit, threads)
    return shares
