"""Component maps: the value of a component over the plane of two variables, as contours."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse

from kpca._base.errors import InputError
from kpca._base.linalg import FloatArray
from kpca.data.frames import column_names, is_frame
from kpca.plots._cloud import class_legend, dots
from kpca.plots._given import components_of, facts_of, final_step, number_of, power_of, short, times, whole, without
from kpca.plots._labels import labels_of, sample_of
from kpca.plots.axes import FAINT, INK, SMALL, named, panels_for, shades

if TYPE_CHECKING:
    from kpca.plots.axes import Axes, Figure

_MANY = 3_000  # rows: more are shades and a sample
_MOST = 24  # panels of one picture
_ACROSS = 4
_NUMBERS = 4_000_000  # of a part of the grid: this many are made at once
_MEDIAN_ROWS = 20_000  # rows from which the medians of the other variables are taken
_LEVELS = 12  # contours of a map, about
_COLOURS = ("PuOr", 0.1, 0.9)  # dark at both ends, light in the middle


@dataclass(kw_only=True, eq=False, repr=False)
class ComponentMapDisplay:
    """The values of components on a grid over two variables, with the rows on top; drawn as often as wanted.

    Lines of equal value are solid where the component is above its mean over the rows, 0, and dashed where it is below:
    they can be read without colours.

    Parameters
    ----------
    x, y : (a,), (b,) the grid.
    values : (k, b, a) of the components there.
    components : (k,) their numbers, from 0.
    points : (m, 2) rows to show.
    labels : a class or a number per row.
    eigenvalues, shares : (k,) written above each map; None for none.
    names : of the two variables.
    note : what is to be said of the other variables.

    Attributes
    ----------
    figure_, axes_ : of the last picture, one axes per component. contours_, fills_ : of each.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kpca import KernelPCA, plots
    >>> X, y = make_moons(60, noise=0.05, random_state=0)
    >>> model = KernelPCA(4, kernel="rbf", gamma=4.0).fit(X)
    >>> display = plots.ComponentMapDisplay.from_estimator(model, X, y, resolution=30)
    >>> len(display.axes_), display.values.shape
    (4, (4, 30, 30))
    """

    x: FloatArray
    y: FloatArray
    values: FloatArray
    components: Sequence[int]
    points: FloatArray
    labels: Any = None
    eigenvalues: FloatArray | None = None
    shares: FloatArray | None = None
    names: tuple[str, str] = ("x0", "x1")
    note: str = ""

    def __post_init__(self) -> None:
        self.x, self.y, self.values = (np.asarray(a, dtype=np.float64) for a in (self.x, self.y, self.values))
        self.components = tuple(self.components)
        wanted = (len(self.components), len(self.y), len(self.x))
        if self.values.shape != wanted:
            raise InputError(f"values must have shape (components, y, x), {wanted}; got {self.values.shape}.")
        self.points = np.asarray(self.points, dtype=np.float64).reshape(-1, 2)
        self.labels = labels_of(self.labels, len(self.points))

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        components: Any = None,
        features: Sequence[int | str] = (0, 1),
        names: Any = None,
        resolution: int = 100,
        margin: float = 0.15,
        **options: Any,
    ) -> Self:
        """Draw the components of a fitted model over the plane of two columns of X.

        Parameters
        ----------
        model : a fitted model, or a pipeline that ends in one.
        X : (m, d) rows; they set the limits of the plane, and are drawn.
        y : a class or a number per row.
        components : their numbers, from 0, or how many; None is the first eight.
        features : two columns, by name or number. All others stay at their medians.
        names : of all columns, for data that does not know them.
        resolution : points of the grid, each way.
        margin : of the range of the rows, at each end of the grid.
        options : those of `plot`.
        """
        facts = facts_of(model)
        plane = _Plane(model, X, names)
        given = features if isinstance(features, tuple | list) else ()
        pair = [j for j in (number_of(one, plane.names) for one in given) if j is not None]
        if len(pair) != 2 or len(features) != 2 or pair[0] == pair[1]:
            wanted = f"two columns, by name ({plane.names[0]!r}, say) or number from 0 to {len(plane.names) - 1}"
            raise InputError(f"features must be {wanted}; got {features!r}.")
        words = f"how many maps to draw, 1 to {_MOST}, or at most {_MOST}"
        chosen = components_of(8 if components is None else components, plane.n_components, words, _MOST, counted=True)
        resolution = whole("resolution", resolution, "a whole number from 2 to 1000", 2, 1000)
        P = np.column_stack([plane.column(j) for j in pair])  # shape: (m, 2)
        if not np.isfinite(P).all():
            raise InputError("The two columns of a component map must be finite: fill or drop rows with gaps.")
        sides = []
        for low, high in zip(P.min(axis=0).tolist(), P.max(axis=0).tolist(), strict=True):
            room = float(margin) * (high - low) or 0.5 * abs(low) or 0.5
            sides.append(np.linspace(low - room, high + room, resolution))
        known: dict[str, Any] = {"eigenvalues": facts.eigenvalues, "shares": facts.shares}
        for what, values in known.items():
            known[what] = None if values is None or max(chosen) >= len(values) else values[list(chosen)]
        return cls(
            x=sides[0],
            y=sides[1],
            values=plane.values(pair, sides, chosen),
            components=chosen,
            points=P,
            labels=y,
            names=(plane.names[pair[0]], plane.names[pair[1]]),
            note=plane.note(pair),
            **known,
        ).plot(**options)

    def plot(self, ax: Any = None, *, levels: int = _LEVELS, filled: bool = True, points: bool = True) -> Self:
        """Draw the maps.

        Parameters
        ----------
        ax : axes to draw into, one per component; None is a new figure.
        levels : contours of each map, about.
        filled : shade between the contours.
        points : draw the rows.
        """
        count, levels = len(self.components), whole("levels", levels, "a whole number of contours, 1 to 100", 1, 100)
        across, size = min(count, _ACROSS), 3.6 if count < 3 else 2.75
        height = (size + 0.15) * -(-count // across) + 0.25 + 0.25 * bool(self.note)
        self.figure_, self.axes_ = panels_for(ax, count, size * across + 0.2, height, across=_ACROSS)
        self.contours_: list[Any] = []
        self.fills_: list[Any] = []
        powers = power_of(self.x, self.points[:, 0]), power_of(self.y, self.points[:, 1])
        sides = without(self.x, powers[0]), without(self.y, powers[1])
        for number, axes in enumerate(self.axes_):
            self._map(axes, sides, self.values[number], levels, filled)
            if points:
                self._rows(axes, *(without(self.points[:, i], powers[i]) for i in range(2)))
                axes.set(xlim=sides[0][[0, -1]], ylim=sides[1][[0, -1]])
            parts = [f"component {self.components[number] + 1}"]
            if self.eigenvalues is not None:
                parts.append(f"λ = {short(float(self.eigenvalues[number]))}")
            if self.shares is not None:
                parts.append(f"{100.0 * float(self.shares[number]):.1f} %")
            axes.set_title(", ".join(parts), loc="left", fontsize=SMALL + 1, color=INK)
            for which, axis in enumerate((axes.xaxis, axes.yaxis)):
                text = named(self.names[which], which) + times(powers[which])
                axis.set_label_text(text, fontsize=SMALL, color=INK)
            axes.tick_params(labelsize=SMALL - 1, colors=INK, length=2)
            axes.spines[:].set(color=FAINT, linewidth=0.8)
            axes.locator_params(nbins=4)
        if ax is None and points and self.labels is not None and self.labels.codes is not None:
            class_legend(self.figure_, self.labels, counts=True)
        if ax is None and self.note:
            self.figure_.suptitle(self.note, x=0.01, ha="left", fontsize=SMALL + 1, color=INK)
        return self

    def _map(self, axes: Axes, sides: Sequence[FloatArray], V: FloatArray, count: int, filled: bool) -> None:
        V = without(V, power_of(V))  # what their unit is does not show
        low, high, top = float(V.min()), float(V.max()), float(np.abs(V).max()) or 1.0
        levels = np.zeros(1)
        if high > low:  # round values, 0 among them where it is between the least and the largest
            step = (high - low) / count
            power = 10.0 ** np.floor(np.log10(step))
            step = float(min((s * power for s in (1.0, 2.0, 2.5, 5.0, 10.0)), key=lambda s: abs(np.log(s / step))))
            levels = np.arange(np.ceil(low / step), np.floor(high / step) + 1.0) * step
        if filled:
            style: dict[str, Any] = {"cmap": shades(*_COLOURS), "vmin": -top, "vmax": top}
            edges = np.unique([-top * 1.0001, *levels, top * 1.0001])
            self.fills_.append(axes.contourf(*sides, V, levels=edges, **style))
        lines = None
        drawn = levels[(levels > low) & (levels < high)]
        if len(drawn):
            styles = ["dashed" if level < 0.0 else "solid" for level in drawn]
            widths = [1.4 if level == 0.0 else 0.8 for level in drawn]
            lines = axes.contour(*sides, V, levels=drawn, colors="#333333", linestyles=styles, linewidths=widths)
        self.contours_.append(lines)

    def _rows(self, axes: Axes, x: FloatArray, y: FloatArray) -> None:
        labels, area = self.labels, float(np.clip(2_500.0 / max(len(x), 1), 5.0, 16.0))
        if len(x) > _MANY:
            rows, area = np.random.default_rng(0).choice(len(x), _MANY, replace=False), 3.0
            if labels is not None and labels.codes is not None:
                rows, area = sample_of(labels, _MANY, 40), 5.0
            x, y, labels = x[rows], y[rows], None if labels is None else labels.only(rows)
        dots(axes, x, y, labels, area=area, colour=INK)
        axes.collections[-1].set(edgecolor="white", linewidth=0.3, alpha=0.9)  # seen on dark and on light shades


def component_maps(model: Any, X: Any, y: Any = None, **options: Any) -> Figure:
    """Return the values of the first components over the plane of two variables, as contours with the rows on top.

    `options` are those of `ComponentMapDisplay.from_estimator` and its `plot`: components, features, ax and so on.
    """
    return ComponentMapDisplay.from_estimator(model, X, y, **options).figure_


class _Plane:
    """The rows of a model and the plane of two of their columns, where the others are at their medians."""

    def __init__(self, model: Any, X: Any, names: Any) -> None:
        head, final = final_step(model)
        X = np.asarray(X) if isinstance(X, list) else X
        if isinstance(getattr(final, "kernel", None), str) and final.kernel == "precomputed":
            raise InputError("Component maps need rows with columns; a precomputed kernel has none.")
        known = None if head is not None else getattr(final, "feature_names_in_", None)
        if head is not None and not _is_numbers(X):  # what comes before makes numbers of it
            X, model = head.transform(X), final
            with suppress(AttributeError, ValueError):  # a step that does not know its names
                known = head.get_feature_names_out()
        if not _is_numbers(X):
            raise InputError("Component maps need rows of numbers in memory: take a sample of them.")
        self._model, self._X = model, X
        self._d = int(X.shape[1])
        if self._d < 2 or not X.shape[0]:
            raise InputError(f"Component maps need rows with 2 columns or more; got shape {tuple(X.shape)}.")
        self.names = column_names(names, known, X, self._d)
        self._frame = is_frame(X)
        every = max(1, -(-int(X.shape[0]) // _MEDIAN_ROWS))
        if sparse.issparse(X):
            some = sparse.csc_array(X[::every])
            self._medians = np.zeros(self._d)  # the median of a column that is mostly zeros
            for j in np.flatnonzero(2 * np.diff(some.indptr) >= some.shape[0]):
                self._medians[j] = np.median(some[:, [j]].toarray())
        else:
            self._medians = np.array([np.nanmedian(self.column(j)[::every]) for j in range(self._d)])
        self._medians = np.nan_to_num(self._medians)
        self.n_components = int(np.shape(self._scores(self._medians[None]))[1])

    def column(self, j: int) -> FloatArray:
        """Return a column.  # shape: (m,)"""
        X = self._X
        if self._frame:
            return np.asarray(X[X.columns[j]].to_numpy(), dtype=np.float64)
        if sparse.issparse(X):
            return np.asarray(X[:, [j]].toarray(), dtype=np.float64).ravel()
        return np.asarray(X[:, j], dtype=np.float64)

    def _scores(self, rows: FloatArray) -> FloatArray:
        """Return the scores of rows, given to the model in the container it knows."""
        given: Any = rows
        if self._frame:
            given = type(self._X)({name: rows[:, j] for j, name in enumerate(self._X.columns)})
        elif getattr(self._X, "dtype", None) == np.float32:
            given = rows.astype(np.float32)
        return np.asarray(self._model.transform(given), dtype=np.float64)

    def values(self, pair: Sequence[int], sides: Sequence[FloatArray], chosen: Sequence[int]) -> FloatArray:
        """Return components on the grid, whose rows are made in parts.  # shape: (k, b, a)"""
        x, y = sides
        grid = np.column_stack([np.tile(x, len(y)), np.repeat(y, len(x))])  # shape: (b a, 2)
        found = np.empty((len(grid), len(chosen)))
        step = max(1, _NUMBERS // self._d)
        for start in range(0, len(grid), step):
            part = grid[start : start + step]
            rows = np.tile(self._medians, (len(part), 1))
            rows[:, list(pair)] = part
            found[start : start + step] = self._scores(rows)[:, list(chosen)]
        return np.ascontiguousarray(found.T).reshape(len(chosen), len(y), len(x))

    def note(self, pair: Sequence[int]) -> str:
        """Return what is to be said of the columns that are not shown."""
        rest = [j for j in range(self._d) if j not in pair]
        if not rest:
            return ""
        few = ", ".join(f"{named(self.names[j], j, 18)} = {short(float(self._medians[j]))}" for j in rest[:3])
        more = f" and {len(rest) - 3:,} more" if len(rest) > 3 else ""
        return f"All other variables are at their medians: {few}{more}."


def _is_numbers(X: Any) -> bool:
    if not is_frame(X):
        return (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "iufb") or bool(sparse.issparse(X))
    # the types of pandas have a kind, those of polars a method
    return all(
        getattr(dtype, "kind", "") in tuple("iufb") or getattr(dtype, "is_numeric", bool)() or str(dtype) == "Boolean"
        for dtype in X.dtypes
    )
