"""Rows in the space of one, two or three components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kpca._base.errors import InputError
from kpca.data.frames import row_labels
from kpca.plots import _cloud as cloud
from kpca.plots._given import Facts, FloatArray, as_scores, components_of, facts_of, power_of, times, whole, without
from kpca.plots._labels import Labels, labels_of, sample_of
from kpca.plots.axes import BAR, INK, SMALL, colour_bar, named, panels_for, plain, tidy, titled

if TYPE_CHECKING:
    from kpca.plots.axes import Figure

_MANY = 20_000  # rows from which on shades say more than dots
_ON_TOP, _AT_LEAST = 2_500, 60  # dots of classes over shades: in all, and of each class
_SPACE = 20_000  # dots in three dimensions: a screen shows no more
_NEARBY = 40.0  # points from the middle of a class to its name
_COMPARABLE = 4.0  # times as long: axes with such spans can have the same scale


class EmbeddingDisplay:
    """The scores of rows on one, two or three components, drawn as often as wanted.

    Classes differ in colour and shape, and have their names at their middles; numbers are a scale of colours; rows
    without a label are grey. Many rows on two components are shades of how many there are.

    Parameters
    ----------
    scores : (m, k) what `transform` returned.
    shares : (k,) shares of the variance, from 0 to 1, for the names of the axes; None for none.
    labels : a class or a number per row; at most ten different values are classes, more numbers a scale. Of more than
        ten texts the nine most frequent are classes, and all others one more.
    ids : what the rows are called; None is their numbers, from 0.
    label_name : what the numbers are, written at their scale; None is the name of a pandas Series.

    Attributes
    ----------
    figure_, ax_ : of the last picture.
    points_ : the dots, or None. density_ : the shades, or None. names_ : the names of classes.
    annotations_ : the ids of extreme rows. colorbar_, legend_ : or None.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpca import KernelPCA, plots
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelPCA(3, kernel="rbf", gamma="median").fit(X)
    >>> display = plots.EmbeddingDisplay.from_estimator(model, X, y, components=(0, 2))
    >>> display.ax_.get_ylabel()
    'component 3 (3.9 % of variance)'
    >>> display.plot(density=True).density_ is None  # the same rows again, as shades
    False
    """

    def __init__(
        self, *, scores: Any, shares: Any = None, labels: Any = None, ids: Any = None, label_name: str | None = None
    ) -> None:
        self.scores = as_scores(scores)
        self.facts = Facts.of(shares)
        self.labels: Labels | None = labels_of(labels, len(self.scores), label_name)
        self.ids = None if ids is None else row_labels(ids, None, len(self.scores))

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any = None, *, ids: Any = None, label_name: str | None = None, **options: Any
    ) -> Self:
        """Draw the scores that a fitted model, or a pipeline that ends in one, gives the rows of X.

        `options` are those of `plot`.
        """
        facts = facts_of(model)
        if ids is None and hasattr(X, "iloc") and hasattr(X, "index"):
            ids = X.index
        return cls(scores=model.transform(X), shares=facts, labels=y, ids=ids, label_name=label_name).plot(**options)

    @classmethod
    def from_scores(
        cls,
        scores: Any,
        y: Any = None,
        *,
        model: Any = None,
        ids: Any = None,
        label_name: str | None = None,
        **options: Any,
    ) -> Self:
        """Draw scores that were computed before; the model, if given, tells the shares of variance."""
        facts = None if model is None else facts_of(model)
        return cls(scores=scores, shares=facts, labels=y, ids=ids, label_name=label_name).plot(**options)

    def plot(
        self,
        ax: Any = None,
        *,
        components: Any = None,
        density: bool | None = None,
        annotate: int = 0,
        equal: bool | None = None,
        title: str | None = None,
        legend: bool = True,
    ) -> Self:
        """Draw the rows.

        Parameters
        ----------
        ax : axes to draw into, three-dimensional ones for three components; None is a new figure.
        components : one, two or three, counted from 0; None is the first two, or the only one.
        density : show shades of how many rows there are, in place of dots; None from 20,000 rows on. Of classes some
            dots are drawn on top; numbers are averaged in each cell. For two components.
        annotate : this many of the most extreme rows get their ids.
        equal : the same scale on all axes; None where that leaves none of them flat.
        title : None says how many rows there are.
        legend : say which shape is which class, besides their names at their middles.
        """
        k = self.scores.shape[1]
        if components is None:
            components = (0, 1) if k > 1 else (0,)
        chosen = components_of(components, k, "one, two or three", 3)
        wanted = whole("annotate", annotate, "how many rows get their ids, 0 or more", 0)
        if density and len(chosen) != 2:
            raise InputError(f"density needs two components; got {len(chosen)}: leave it out.")
        none: Any = None
        self.points_ = self.density_ = self.colorbar_ = self.legend_ = none
        self.names_: list[Any] = []
        self.annotations_: list[Any] = []
        self._own = ax is None
        height = 6.0 if len(chosen) > 1 else 4.2
        self.figure_, (self.ax_,) = panels_for(ax, 1, 6.4, height, three=len(chosen) == 3)
        P = self.scores[:, list(chosen)]  # shape: (m, 1 to 3)
        power = power_of(P)
        P = without(P, power)
        many = len(P) >= _MANY if density is None else bool(density)
        note = ""
        if len(P):
            spans = np.ptp(P, axis=0)
            comparable = spans.min() > 0.0 and spans.max() <= _COMPARABLE * spans.min()
            same = bool(comparable if equal is None else equal)
            if len(chosen) == 1:
                note, self.points_ = cloud.strips(self.ax_, P[:, 0], self.labels)
            else:
                note = self._plane(P, same, shaded=many) if len(chosen) == 2 else self._space(P, same)
            if legend and len(chosen) > 1 and self.labels is not None and self.labels.codes is not None:
                if self._own:
                    self.legend_, lines = cloud.class_legend(self.figure_, self.labels, counts=True)
                    self.figure_.set_figheight(height + 0.22 * lines)
                else:
                    style: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "fontsize": SMALL}
                    self.legend_ = self.ax_.legend(*cloud.class_entries(self.labels), frameon=False, **style)
        self._write(chosen, power, title, note)
        if len(chosen) == 2 and len(P):
            # a name that finds no room nearby would cover other classes: it is in the legend
            most = np.inf if self.legend_ is None else _NEARBY
            self.names_ = cloud.name_classes(self.ax_, P, self.labels, large=self._own, most=most)
            if wanted:
                self._annotate(P, wanted)
        return self

    def _plane(self, P: FloatArray, same: bool, *, shaded: bool) -> str:
        x, y = P.T
        note = self._shades(x, y, same) if shaded else ""
        if not shaded:
            mapped = cloud.dots(self.ax_, x, y, self.labels, area=cloud.dot_size(len(x)))
            self.points_ = self.ax_.collections[-1]
            if mapped is not None:
                self._bar(mapped)
        if self._own:
            self.ax_.set_box_aspect(1)
        if same:
            self.ax_.set_aspect("equal", adjustable="datalim")
        tidy(self.ax_, grid="both")
        return note

    def _shades(self, x: FloatArray, y: FloatArray, same: bool) -> str:
        """Draw the density of the rows, and what can be said of labels on top; return what there is to note."""
        labels = self.labels
        if labels is not None and labels.codes is None:
            there = ~labels.missing
            if not there.all():
                cloud.density(self.ax_, x[~there], y[~there], equal=same, faint=True)
            if there.any():
                values = np.asarray(labels.values)[there]
                self.density_ = cloud.density(self.ax_, x[there], y[there], values, equal=same)
                self._bar(self.density_, f"mean of {labels.meaning or 'label'} in a cell")
            return ""
        self.density_ = cloud.density(self.ax_, x, y, equal=same, faint=labels is not None)
        self.colorbar_ = cloud.count_bar(self.figure_, self.ax_, self.density_)
        if labels is None:
            return ""
        rows = sample_of(labels, _ON_TOP, _AT_LEAST)
        cloud.dots(self.ax_, x[rows], y[rows], labels.only(rows), area=10.0)
        self.points_ = self.ax_.collections[-1]
        self.points_.set_zorder(2.5)
        return f"shades: all rows; dots: {len(rows):,} of them" if len(rows) < len(x) else ""

    def _annotate(self, P: FloatArray, count: int) -> None:
        """Write the ids of the rows that are the most standard deviations away from the middle."""
        middle, spread = P.mean(axis=0), P.std(axis=0)
        away = (P - middle) / np.where(spread > 0.0, spread, 1.0)
        rows = np.argsort(-np.hypot(*away.T), kind="stable")[:count]
        names = [named(row if self.ids is None else self.ids[row], int(row)) for row in rows]
        before = len(self.ax_.texts)
        ring: dict[str, Any] = {"s": 46, "facecolors": "none", "edgecolors": INK, "linewidths": 1.0, "zorder": 5}
        self.ax_.scatter(*P[rows].T, **ring)
        cloud.place_names(self.ax_, P[rows], 0.05 * (P[rows] - middle), names)
        self.annotations_ = list(self.ax_.texts[before:])

    def _space(self, P: FloatArray, same: bool) -> str:
        """Draw dots in space, class by class: the shapes of one collection cannot be sorted by depth."""
        axes: Any = self.ax_
        rows = np.arange(len(P))
        if len(P) > _SPACE:
            rows = np.sort(np.random.default_rng(0).choice(len(P), _SPACE, replace=False))
        style: dict[str, Any] = {"alpha": 0.7, "linewidths": 0, "rasterized": len(rows) > cloud.VECTOR_DOTS}
        layers: list[tuple[Any, dict[str, Any]]] = [(np.ones(len(rows), dtype=bool), {"color": BAR})]
        labels = None if self.labels is None else self.labels.only(rows)
        if labels is not None:
            there = ~labels.missing
            layers = [(~there, {"color": cloud.NO_LABEL})]
            if labels.codes is None:
                layers.append((there, {"c": np.asarray(labels.values)[there], "cmap": cloud.SCALE}))
            else:
                looks = enumerate(zip(*cloud.class_style(labels), strict=True))
                layers += [(labels.codes == code, {"color": look[0], "marker": look[1]}) for code, look in looks]
        for mine, look in layers:
            if mine.any():
                self.points_ = axes.scatter(*P[rows][mine].T, s=cloud.dot_size(len(rows)), **look, **style)
                if "cmap" in look:
                    self._bar(self.points_)
        spans = np.maximum(np.ptp(P, axis=0), 1e-3 * float(np.ptp(P, axis=0).max() or 1.0))
        axes.set_box_aspect(spans if same else (1.0, 1.0, 0.9), zoom=0.85)
        return f"{len(rows):,} of them drawn" if len(rows) < len(P) else ""

    def _bar(self, mapped: Any, meaning: str = "") -> None:
        assert self.labels is not None
        text = plain(meaning, 40) + times(self.labels.power) if meaning else self.labels.scale_name()
        self.colorbar_ = colour_bar(self.figure_, mapped, self.ax_, text, shrink=0.7, pad=0.02, frame=False)

    def _write(self, chosen: tuple[int, ...], power: int, title: str | None, note: str) -> None:
        axes: Any = self.ax_
        for component, set_label in zip(chosen, ("set_xlabel", "set_ylabel", "set_zlabel"), strict=False):
            getattr(axes, set_label)(self.facts.axis_name(component) + times(power))
        if len(chosen) > 2:
            axes.tick_params(labelsize=SMALL, colors=INK, pad=0)
            for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
                axis.label.set_size(SMALL + 1)
        heading = f"Scores of {len(self.scores):,} rows" if title is None else plain(title, 70)
        titled(self.ax_, heading, note)


def scores(model: Any, X: Any, y: Any = None, components: Any = None, **options: Any) -> Figure:
    """Return the scores of the rows of X on two components, on one or on three.

    Parameters
    ----------
    model : a fitted model, or a pipeline that ends in one.
    X : rows to show; what `model.transform` takes.
    y : a class or a number per row; at most ten different values are classes, more numbers a scale.
    components : counted from 0; None is the first two.
    options : those of `EmbeddingDisplay.from_estimator` and its `plot`: ids, density, annotate, ax and so on.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpca import KernelPCA, plots
    >>> X, y = load_iris(return_X_y=True)
    >>> figure = plots.scores(KernelPCA(3, kernel="rbf", gamma="median").fit(X), X, y)
    >>> figure.axes[0].get_xlabel()
    'component 1 (69.7 % of variance)'
    """
    return EmbeddingDisplay.from_estimator(model, X, y, components=components, **options).figure_
