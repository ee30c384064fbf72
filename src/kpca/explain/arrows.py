"""Components at single rows: which way scores move when a variable grows, and which rows lie at the two ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kpca._base.config import memory_budget, require
from kpca._base.errors import InputError
from kpca._base.text import data_frame, text_table
from kpca._base.validation import whole_number
from kpca.data.frames import row_labels
from kpca.estimators.incremental import IncrementalKernelPCA
from kpca.estimators.kernel_pca import KernelPCA
from kpca.explain.subject import Ranked, chosen_components, component_title, finite, number, subject_of

FloatArray = NDArray[Any]
_NUMBERS_AT_ONCE = 2**23


@dataclass(frozen=True, eq=False)
class Arrows(Ranked):
    """How scores move with variables, row by row; `print` shows the mean arrows, the longest first.

    Attributes
    ----------
    names : of the variables, the v with the longest arrows if this many were asked for.
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

    _figure = "lengths"

    def to_pandas(self) -> Any:
        """Return a data frame of the mean arrows, a row per variable."""
        return self._frame({"length": self.lengths} | self._titled(self.mean))

    def __str__(self) -> str:
        unit = "standard deviation" if self.scaled else "unit"
        head = f"Change of two scores per {unit} of a variable: mean arrows over {len(self.positions):,} rows."
        return self._table(head, {"mean length": self.lengths}, self.mean)


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
    columns = np.arange(d)
    if count < d:  # those with the longest arrows on average
        lengths = subject.slopes(chosen, "arrows", scale, _NUMBERS_AT_ONCE)[1]
        columns = np.sort(np.argsort(-lengths, kind="stable")[:count])
    require(16 * m * count, memory_budget, "or ask for fewer variables or rows")
    found = np.empty((m, 2, count))
    for part, J in subject.jacobians(chosen, "arrows", _NUMBERS_AT_ONCE):
        found[part] = subject.per_variable(J * scale)[:, :, columns]
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


@dataclass(frozen=True, eq=False)
class Extremes:
    """The most extreme rows of each component; `print` shows a table.

    Attributes
    ----------
    components : (c,), which components, counted from 0.
    lowest, highest : (c, n), numbers of rows, the most extreme first.
    lowest_scores, highest_scores : (c, n), their scores.
    labels : (m,), what the rows are called; their numbers, if nobody says.
    """

    components: NDArray[np.intp]
    lowest: NDArray[np.intp]
    highest: NDArray[np.intp]
    lowest_scores: FloatArray
    highest_scores: FloatArray
    labels: NDArray[Any]

    def top(self, n: int = 10) -> list[tuple[str, Any, float]]:
        """Return (component, row, score) of the first n rows at either end of each component, the highest first."""
        found, n = [], whole_number("n", n, 1)
        for row, j in enumerate(self.components):
            for places, scores in ((self.highest, self.highest_scores), (self.lowest, self.lowest_scores)):
                both = zip(self.labels[places[row, :n]].tolist(), scores[row, :n].tolist(), strict=True)
                found += [(component_title(j), label, score) for label, score in both]
        return found

    def to_pandas(self) -> Any:
        """Return a data frame, a row per component, end and rank."""
        c, n = self.highest.shape
        columns: dict[str, Any] = {
            "component": np.repeat([component_title(j) for j in self.components], 2 * n),
            "end": np.tile(np.repeat(["high", "low"], n), c),
            "rank": np.tile(np.arange(1, n + 1), 2 * c),
            "row": self.labels[np.concatenate([self.highest, self.lowest], axis=1).ravel()],
            "score": np.concatenate([self.highest_scores, self.lowest_scores], axis=1).ravel(),
        }
        return data_frame(columns)

    def __str__(self) -> str:
        lines = []
        for row, rank in np.ndindex(self.highest.shape):
            line = [component_title(int(self.components[row])) if rank == 0 else ""]
            for places, scores in ((self.highest, self.highest_scores), (self.lowest, self.lowest_scores)):
                line += [str(self.labels[places[row, rank]]), number(float(scores[row, rank]))]
            lines.append(line)
        return "\n".join(text_table(["", "highest", "score", "lowest", "score"], lines))


def extremes(model: Any, X: Any = None, *, components: Any = None, n: int = 5, ids: Any = None) -> Extremes:
    """Return the rows with the highest and the lowest scores of each component.

    Parameters
    ----------
    model : a fitted KernelPCA (also of a precomputed kernel), IncrementalKernelPCA or KernelPCADetector, or a Pipeline
        that ends in one.
    X : rows as the model takes them; None is the rows that the model keeps (all of the fit, or landmarks).
    components : which components, counted from 0; None is all.
    n : how many rows at each end; at most all of them.
    ids : what the rows are called, one for each; None is the index of a pandas frame, or numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from kpca import KernelPCA, explain
    >>> X = np.array([[0.0, 1.0], [9.0, 0.0], [1.0, 0.0], [-6.0, 1.0]])
    >>> found = explain.extremes(KernelPCA(1).fit(X), X, n=1, ids=["a", "b", "c", "d"])
    >>> found.labels[found.highest[0, 0]].item(), found.labels[found.lowest[0, 0]].item()
    ('b', 'd')
    """
    scores = _scores(model, X)
    count = min(whole_number("n", n, 1), len(scores))
    labels = row_labels(ids, X, len(scores))
    chosen = chosen_components(components, scores.shape[1])
    by_component = scores[:, chosen].T  # shape: (c, m)
    lowest, highest = (np.argsort(sign * by_component, axis=1, kind="stable")[:, :count] for sign in (1, -1))
    low, high = (np.take_along_axis(by_component, places, axis=1) for places in (lowest, highest))
    return Extremes(chosen, lowest, highest, low, high, labels)


def _scores(model: Any, X: Any) -> FloatArray:
    """Return the scores of rows, or of those that the model keeps.  # shape: (m, k)"""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if isinstance(last, KernelPCA | IncrementalKernelPCA):
        check_is_fitted(last)
        if X is not None:
            return np.asarray(model.transform(X), dtype=np.float64)
        if isinstance(last, KernelPCA) and not hasattr(last, "feature_map_"):
            return last._fitted_scores().astype(np.float64)
    subject = subject_of(model, X)
    return subject.scores(subject.rows)
