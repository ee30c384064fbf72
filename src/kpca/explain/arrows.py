"""Arrows of a biplot: which way the scores of each row move when a variable grows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError
from kpca.explain.names import chosen_components, component_title
from kpca.explain.subject import Subject, finite, subject_of
from kpca.explain.table import SHOWN, left_out, number
from kpca.inputs import whole_number
from kpca.planning.memory import require
from kpca.settings import memory_budget
from kpca.tables import data_frame, short_name, text_table

FloatArray = NDArray[Any]
_NUMBERS_AT_ONCE = 2**23


@dataclass(frozen=True, eq=False)
class Arrows:
    """How scores move with variables, row by row; `print` shows the mean arrows, the longest first.

    Attributes
    ----------
    names : of the variables, the v with the longest arrows if so many were asked for.
    columns : (v,), which columns they are.
    positions : (m, 2), the scores of the rows: where arrows start.
    arrows : (m, 2, v), the change of both scores per standard deviation of each variable (per unit if not `scaled`).
    mean : (2, v), the mean arrow of each variable. It is 0 where arrows turn round, as they do along a ring.
    lengths : (v,), the mean length of the arrows of each variable.
    components : (2,), the two components, counted from 0.
    scaled : whether arrows are per standard deviation.
    """

    names: tuple[str, ...]
    columns: NDArray[np.intp]
    positions: FloatArray
    arrows: FloatArray
    mean: FloatArray
    lengths: FloatArray
    components: NDArray[np.intp]
    scaled: bool

    @property
    def order(self) -> NDArray[np.intp]:
        """The places of the variables, those with the longest arrows first.  # shape: (v,)"""
        return np.argsort(-self.lengths, kind="stable")

    def top(self, n: int = 10) -> list[tuple[str, float]]:
        """Return the n variables with the longest arrows, with their mean lengths."""
        return [(self.names[place], float(self.lengths[place])) for place in self.order[: whole_number("n", n, 1)]]

    def to_pandas(self) -> Any:
        """Return a data frame of the mean arrows, a row per variable."""
        titles = [component_title(int(j)) for j in self.components]
        columns = {"length": self.lengths, titles[0]: self.mean[0], titles[1]: self.mean[1]}
        return data_frame(columns, index=self.names, index_name="variable")

    def __str__(self) -> str:
        unit = "standard deviation" if self.scaled else "unit"
        titles = ["variable", "mean length", *(component_title(int(j)) for j in self.components)]
        lines = [
            [short_name(self.names[m]), number(self.lengths[m]), number(self.mean[0, m]), number(self.mean[1, m])]
            for m in self.order[:SHOWN]
        ]
        head = f"Change of two scores per {unit} of a variable: mean arrows over {len(self.positions):,} rows."
        return "\n".join([head, "", *text_table(titles, lines), *left_out(len(self.names), 2)])


def arrows(
    model: Any,
    X: Any = None,
    *,
    components: tuple[int, int] = (0, 1),
    variables: int | None = None,
    scaled: bool = True,
    max_rows: int = 1000,
    names: Any = None,
) -> Arrows:
    """Return the gradients of two scores at each row, for a biplot.

    Parameters
    ----------
    model, X, max_rows, names : as in `importance`.
    components : the two components, counted from 0.
    variables : how many variables to keep, those with the longest arrows on average; None is all.
    scaled : multiply by the standard deviations of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from kpca import KernelPCA, explain
    >>> X = np.random.default_rng(0).standard_normal((50, 4)) * [3.0, 2.0, 1.0, 0.1]
    >>> found = explain.arrows(KernelPCA(2).fit(X), X, variables=2, names=["length", "width", "height", "rest"])
    >>> found.names, found.positions.shape, found.arrows.shape
    (('length', 'width'), (50, 2), (50, 2, 2))
    """
    most = whole_number("max_rows", max_rows, 1)
    subject = subject_of(model, X, names, most=most).sampled(most)
    if subject.model.n_components_ < 2:
        raise InputError("Arrows need two components, for the two axes of a biplot; the model has 1: fit more.")
    chosen = chosen_components(components, subject.model.n_components_)
    if len(chosen) != 2:
        raise InputError(f"components must be two, for the two axes of a biplot; got {len(chosen)}.")
    m, d = subject.rows.shape[0], len(subject.names)
    scale = subject.scale(scaled)
    count = d if variables is None else min(whole_number("variables", variables, 1), d)
    columns = np.arange(d) if count == d else np.sort(_longest(subject, chosen, scale)[:count])
    require(16 * m * count, memory_budget, "or ask for fewer variables or rows")
    found = np.empty((m, 2, count))
    derivatives = subject.derivatives(chosen, "arrows")
    for part, rows in subject.tiles(2 * len(scale), _NUMBERS_AT_ONCE):
        found[part] = subject.per_variable(derivatives.jacobian(rows) * scale)[:, :, columns]
    return Arrows(
        names=tuple(subject.names[column] for column in columns),
        columns=columns,
        positions=subject.scores(subject.rows)[:, chosen],
        arrows=finite(found),
        mean=found.mean(axis=0),
        lengths=np.sqrt(np.square(found).sum(axis=1)).mean(axis=0),
        components=chosen,
        scaled=scaled,
    )


def _longest(subject: Subject, components: NDArray[np.intp], scale: FloatArray) -> NDArray[np.intp]:
    """Return the variables, those with the longest arrows on average first.  # shape: (d,)"""
    derivatives, lengths = subject.derivatives(components, "arrows"), np.zeros(len(subject.names))
    for _, rows in subject.tiles(2 * len(scale), _NUMBERS_AT_ONCE):
        moved = subject.per_variable(derivatives.jacobian(rows) * scale)
        lengths += np.sqrt(np.square(moved).sum(axis=1)).sum(axis=0)
    return np.argsort(-lengths, kind="stable")
