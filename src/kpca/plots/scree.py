"""The spectrum: how much each component explains, how well that is known, and how much they explain together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kpca._base.errors import InputError
from kpca.plots._cloud import class_legend
from kpca.plots._given import FloatArray, factored, facts_of, short, whole
from kpca.plots.axes import BAR, INK, SMALL, new_figure, panels_for, tidy, titled
from kpca.plots.embedding import EmbeddingDisplay

if TYPE_CHECKING:
    from kpca.plots.axes import Figure

_SEEN = 0.005  # of the largest share: bounds that are further apart can be seen
_SEEN_RATIO = 1.02  # the same on a logarithmic scale
_SINGLE = 40  # components: more have no room for whiskers with caps, nor for marks on the line
_HIGHEST = 4.0  # times the largest share: how far up bounds are followed
_TICKS = 12
_DECADES = 18.5  # below the largest: what is further down is rounding


@dataclass(kw_only=True, eq=False, repr=False)
class SpectrumDisplay:
    """The shares of variance of the components, with bounds, and what they add up to; drawn as often as wanted.

    Parameters
    ----------
    eigenvalues : (k,) in descending order.
    total : the sum of all eigenvalues, those that were not computed too; None shows eigenvalues in place of shares.
    bounds : (k, 2) lower and upper bounds of the eigenvalues; None for none.
    estimate : the bounds are an estimate, as random features have it, and not certified.
    centred : False says that shares are of second moments, not of the variance.

    Attributes
    ----------
    figure_, ax_ : of the last picture. cumulative_ax_ : the scale at the right, or None.
    bars_ : the bars, or the line of a logarithmic scale. whiskers_ : the bounds, None where they are too near to see.
    cumulative_ : the line of sums, or None.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpca import KernelPCA, plots
    >>> X, _ = load_iris(return_X_y=True)
    >>> display = plots.SpectrumDisplay.from_estimator(KernelPCA(5, kernel="rbf", gamma="median").fit(X))
    >>> display.ax_.get_title(loc="left")
    'Spectrum: 95.9 % in 5 components'
    >>> display.plot(log=True).ax_.get_yscale()
    'log'
    """

    eigenvalues: Any
    total: float | None = None
    bounds: Any = None
    estimate: bool = False
    centred: bool = True

    def __post_init__(self) -> None:
        self.eigenvalues = np.asarray(self.eigenvalues, dtype=np.float64)  # shape: (k,)
        if self.eigenvalues.ndim != 1 or not self.eigenvalues.size or not np.isfinite(self.eigenvalues).all():
            raise InputError(f"eigenvalues must be finite numbers, 1 or more; got shape {self.eigenvalues.shape}.")
        self.total = None if self.total is None else float(self.total)
        self.bounds = None if self.bounds is None else np.asarray(self.bounds, dtype=np.float64)  # shape: (k, 2)
        if self.bounds is not None and self.bounds.shape != (len(self.eigenvalues), 2):
            raise InputError(f"bounds must be a pair per eigenvalue, {len(self.eigenvalues)}; got {self.bounds.shape}.")
        self._of_what = "variance" if self.centred else "second moment"

    @classmethod
    def from_estimator(cls, model: Any, X: Any = None, y: Any = None, **options: Any) -> Self:
        """Draw the spectrum of a fitted model, or of the last step of a pipeline.

        X and y are not needed, and there for the convention of scikit-learn. `options` are those of `plot`.
        """
        facts, total = facts_of(model), None
        if facts.eigenvalues is None:
            raise InputError(f"The model must have eigenvalues to show; a {type(model).__name__} has none.")
        if facts.shares is not None and len(facts.shares):
            first = float(facts.shares[0])
            total = float(facts.eigenvalues[0]) / first if first > 0.0 else 0.0
        known = {name: getattr(facts, name) for name in ("eigenvalues", "bounds", "estimate", "centred")}
        return cls(total=total, **known).plot(**options)

    @classmethod
    def from_eigenvalues(
        cls, eigenvalues: Any, *, total: float | None = None, bounds: Any = None, estimate: bool = False, **options: Any
    ) -> Self:
        """Draw eigenvalues that were computed before; `options` are those of `plot`."""
        return cls(eigenvalues=eigenvalues, total=total, bounds=bounds, estimate=estimate).plot(**options)

    def plot(self, ax: Any = None, *, log: bool = False, cumulative: bool = True, n: int | None = None) -> Self:
        """Draw the spectrum.

        Parameters
        ----------
        ax : axes to draw into; None is a new figure.
        log : a logarithmic scale, for spectra over many decades: a line, for bars of no beginning have no length.
        cumulative : show what the components explain together, on a scale at the right. Needs the total.
        n : show the first n components; None is all.
        """
        count = len(self.eigenvalues)
        wanted = count if n is None else whole("n", n, "a whole number of components to show, 1 or more", 1)
        shown = min(wanted, count)
        self.figure_, (self.ax_,) = panels_for(ax, 1, 6.8, 4.3)
        values = self.eigenvalues
        found = np.column_stack([values, np.column_stack([values, values]) if self.bounds is None else self.bounds])
        if self.total is None:
            found, meaning = factored(found, "eigenvalue")
        else:
            with np.errstate(invalid="ignore"):
                scaled = found * (100.0 / self.total if self.total > 0.0 else 0.0)
            found, meaning = np.nan_to_num(scaled, nan=0.0, posinf=np.inf), f"{self._of_what} explained (%)"
        share = found[:, 0]
        low, high = np.minimum(found[:shown, 1], share[:shown]), np.maximum(found[:shown, 2], share[:shown])
        self.ax_.set(xlabel="component", ylabel=meaning)
        none: Any = None
        self.bars_ = self.whiskers_ = self.cumulative_ = self.cumulative_ax_ = none
        number = np.arange(1, shown + 1)
        self._values(number, share[:shown], low, high, log=log)
        if cumulative and self.total:
            right = self.cumulative_ax_ = self.ax_.twinx()
            look: dict[str, Any] = {"color": INK, "linestyle": "--", "linewidth": 1.2, "label": "cumulative (right)"}
            if shown <= _SINGLE:
                look |= {"marker": "s", "markersize": 3.5, "markerfacecolor": "white"}
            (self.cumulative_,) = right.plot(number, np.cumsum(share)[:shown], **look)
            right.set_ylim(0.0, 105.0)
            right.set_ylabel(f"cumulative {self._of_what} (%)", color=INK)
            right.spines[:].set_visible(False)
            right.tick_params(colors=INK, length=0)
        self._write(share, shown)
        return self

    def _values(self, number: Any, share: FloatArray, low: FloatArray, high: FloatArray, *, log: bool) -> None:
        axes, top = self.ax_, float(share.max(initial=0.0))
        many = len(share) > _SINGLE
        self._hidden = 0
        if log and top > 0.0:
            floor = top * 10.0**-_DECADES
            there = share > floor
            self._hidden = int((~there).sum())
            wide = there & (high > _SEEN_RATIO * np.maximum(low, floor))
            mark: dict[str, Any] = {"marker": "o", "markersize": 2.5 if many else 4.5, "linewidth": 1.2}
            (self.bars_,) = axes.plot(number[there], share[there], color=BAR, **mark)
            axes.set_yscale("log", nonpositive="clip")
            least = float(share[there].min())
            reached = float(np.where(wide, np.minimum(high, 100.0 * top), share).max())
            axes.set_ylim(max(0.5 * float(np.maximum(low[there], 0.01 * least).min()), floor), 1.6 * max(reached, top))
        else:
            wide = high - low > _SEEN * top
            look: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.3} if many else {}
            self.bars_ = axes.bar(number, share, width=1.0 if many else 0.72, color=BAR, **look)
            seen = np.where(np.isfinite(high), np.minimum(high, _HIGHEST * top), 1.3 * top)
            reached = float(np.where(wide, seen, share).max(initial=0.0))
            axes.set_ylim(0.0, 1.06 * max(reached, top) or 1.0)
        self.bars_.set_label("share" if self.total is not None else "eigenvalue")
        if wide.any():
            words = "estimated bounds" if self.estimate else "certified bounds"
            upper = np.where(np.isfinite(high), high, axes.get_ylim()[1] * 10.0)
            if many:  # a band in place of whiskers
                style: dict[str, Any] = {"step": "mid", "facecolor": "#9A9A9A", "alpha": 0.45, "linewidth": 0}
                self.whiskers_ = axes.fill_between(number, np.maximum(low, 0.0), upper, label=words, **style)
            else:
                gaps = np.array([share - low, upper - share])[:, wide]  # shape: (2, w)
                style = {"fmt": "none", "ecolor": INK, "elinewidth": 1.0, "capsize": 3}
                self.whiskers_ = axes.errorbar(number[wide], share[wide], yerr=gaps, label=words, **style)
        beyond = wide & (high > axes.get_ylim()[1])
        self._beyond = float(high[beyond].max()) if beyond.any() else 0.0

    def _write(self, share: FloatArray, shown: int) -> None:
        axes, count = self.ax_, len(share)
        if shown <= _TICKS:
            axes.set_xticks(range(1, shown + 1))
        else:
            axes.locator_params(axis="x", nbins=_TICKS, steps=[1, 2, 5, 10], integer=True)
        axes.set_xlim(0.3, shown + 0.7)
        percent = f"{share.sum():#.3g}".removesuffix(".") if share.any() else "0"
        if float(percent) >= 100.0 > share.sum() + 1e-9:  # 100 only if it is
            percent = "over 99.9"
        whole = f": {percent} % in {count} component{'s' if count > 1 else ''}"
        name = "Estimated spectrum" if self.estimate else "Spectrum"
        title = f"{name}{whole if self.total is not None else f': {count} eigenvalues'}"
        notes = []
        if self.estimate:
            notes.append("the kernel is approximated: all values are estimates")
        if shown < count:
            notes.append(f"the first {shown} are shown")
        if self._hidden:
            notes.append(f"{self._hidden} without variance are not shown")
        if np.isinf(self._beyond):
            notes.append("upper bounds are not known")
        elif self._beyond:
            notes.append(f"upper bounds reach {short(self._beyond)}{' %' if self.total is not None else ''}")
        titled(axes, title, "; ".join(notes))
        tidy(axes, grid="y")
        axes.tick_params(which="minor", length=0)
        # what is drawn, below the axes: inside there may be no room
        handles = [artist for artist in (self.bars_, self.whiskers_, self.cumulative_) if artist is not None]
        if len(handles) > 1:
            style: dict[str, Any] = {"fontsize": SMALL, "frameon": False, "columnspacing": 1.5, "ncols": len(handles)}
            axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.13), **style)


def spectrum(model: Any, **options: Any) -> Figure:
    """Return the share of variance of each component, with its certified bounds, and what they are together.

    `options` are those of `SpectrumDisplay.plot`: log, cumulative, n, ax.
    """
    return SpectrumDisplay.from_estimator(model, **options).figure_


def overview(model: Any, scores: FloatArray, labels: Any = None, *, ids: Any = None) -> Figure:
    """Return the scores on the first two components beside the spectrum.

    Parameters
    ----------
    model : a fitted model, or a pipeline that ends in one.
    scores : what `model.fit_transform` or `model.transform` returned.  # shape: (m, k)
    labels : a class or a number per row, as `y` of `plots.scores`.
    ids : what the rows are called.
    """
    figure = new_figure(11.0, 6.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.75, 1.0))
    left.set_box_aspect(1)
    display = EmbeddingDisplay.from_scores(scores, labels, model=model, ids=ids, ax=left, legend=False)
    if display.labels is not None and display.labels.codes is not None:
        class_legend(figure, display.labels, counts=True)
    SpectrumDisplay.from_estimator(model, ax=right)
    return figure
