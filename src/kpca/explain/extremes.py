"""The rows at both ends of each component: what a component is about can often be read off them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from kpca.explain.names import chosen_components, component_title
from kpca.explain.subject import subject_of
from kpca.explain.table import number
from kpca.incremental import IncrementalKernelPCA
from kpca.inputs import whole_number
from kpca.kernel_pca import KernelPCA
from kpca.naming import row_labels
from kpca.tables import data_frame, text_table

FloatArray = NDArray[Any]


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
            ends = ((self.highest, self.highest_scores), (self.lowest, self.lowest_scores))
            for places, scores in ends:
                labels = self.labels[places[row, :n]].tolist()
                found += [
                    (component_title(int(j)), label, float(score))
                    for label, score in zip(labels, scores[row], strict=False)
                ]
        return found

    def to_pandas(self) -> Any:
        """Return a data frame, a row per component, end and rank."""
        c, n = self.highest.shape
        return data_frame(
            {
                "component": np.repeat([component_title(int(j)) for j in self.components], 2 * n),
                "end": np.tile(np.repeat(["high", "low"], n), c),
                "rank": np.tile(np.arange(1, n + 1), 2 * c),
                "row": self.labels[np.concatenate([self.highest, self.lowest], axis=1).ravel()],
                "score": np.concatenate([self.highest_scores, self.lowest_scores], axis=1).ravel(),
            }
        )

    def __str__(self) -> str:
        lines = [
            [
                component_title(int(j)) if rank == 0 else "",
                str(self.labels[self.highest[row, rank]]),
                number(self.highest_scores[row, rank]),
                str(self.labels[self.lowest[row, rank]]),
                number(self.lowest_scores[row, rank]),
            ]
            for row, j in enumerate(self.components)
            for rank in range(self.highest.shape[1])
        ]
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
    return Extremes(
        chosen,
        lowest,
        highest,
        np.take_along_axis(by_component, lowest, axis=1),
        np.take_along_axis(by_component, highest, axis=1),
        labels,
    )


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
