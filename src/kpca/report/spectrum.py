"""What was chosen, and why: kernel, number of components, the way of the solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.estimators.incremental import IncrementalKernelPCA
from kpca.features import IdentityMap
from kpca.report.material import Material, Refusal, Section, attempt
from kpca.report.packing import Markup, bullets, joined, numbers, paragraph, plot, table, tag
from kpca.report.words import count, formula, meaning, number, percent, sentence

_AS_SEEN = " Rows are meant as the model sees them, after the treatment above."


def choice(material: Material) -> Section:
    """Return the section on the model."""
    model = material.model
    parts: list[Markup] = [bullets(sentence(text) for text in material.subject.chosen)]
    parts += [
        paragraph("The kernel, which says how alike two rows x and y are:"),
        tag("p", formula(model.kernel_), class_="formula"),
        paragraph(meaning(model.kernel_), _AS_SEEN if material.subject.data.treated else ""),
        paragraph(_components(model)),
        paragraph(_solution(model)),
    ]
    return Section("choice", "What was chosen, and why", joined(parts))


def _components(model: Any) -> str:
    asked, k = model.n_components, int(model.n_components_)
    text = f"The model has {count(k, 'component')}"
    if isinstance(asked, str):
        reason = sentence(str(getattr(model, "n_components_reason_", "")))
        return f"{text}, a number chosen from the data. {reason}"
    if asked is None:
        return f"{text}: all that have any variance."
    if isinstance(asked, float) and asked < 1:
        return f"{text}: as many as it takes to hold {percent(asked)} of the variance."
    return f"{text}: {asked:,} were asked for, and there are no more." if asked > k else f"{text}, as asked for."


def _solution(model: Any) -> str:
    if isinstance(model, IncrementalKernelPCA):
        return (
            f"The rows were read batch by batch: {count(model.n_samples_seen_, 'row')} in "
            f"{count(model.batches_seen_, 'batch', 'batches')}, of which the mean and the scatter of "
            f"{count(model.feature_map_.rank, 'feature')} are kept."
        )
    plan, features = attempt(lambda: model.plan_), _features(model)
    if isinstance(plan, Refusal):
        return f"How it was computed: {features}." if features else f"The plan cannot be shown: {plan.sentence}"
    route = str(plan).splitlines()[0].partition(", ")[2].rstrip(".")
    return f"How it was computed: {features or route}. Why: {sentence(plan.reason)}"


def _features(model: Any) -> str:
    """Return in words what stands for the kernel, empty if nothing does."""
    feature_map = getattr(model, "feature_map_", None)
    if feature_map is None:
        return ""
    landmarks = getattr(feature_map, "landmarks", None)
    if landmarks is not None:
        return f"each row was compared with {count(landmarks.shape[0], 'landmark')}, rows chosen to stand for all"
    return f"each row was replaced by {count(feature_map.rank, 'random feature')}, whose products stand for the kernel"


# -- How much of the variance the components hold, with bounds --------------------------------------------------------

FloatArray = NDArray[Any]
_SHOWN_ROWS, _SHOWN_BARS = 12, 50


@dataclass(frozen=True)
class Shares:
    """Eigenvalues as shares of the variance, with bounds."""

    values: FloatArray  # eigenvalues, shape: (k,)
    bounds: FloatArray  # shape: (k, 2)
    trace: float
    estimated: bool  # the bounds are estimates: random features
    word: str  # "variance", or what takes its place without centring

    @property
    def each(self) -> FloatArray:
        """The share of each component.  # shape: (k,)"""
        return self.values / self.trace

    def of_first(self, count: int) -> tuple[float, float, float]:
        """Return the share of the first n together, and its bounds."""
        low, high = np.clip(self.bounds[:count].sum(axis=0) / self.trace, 0.0, 1.0)
        value = float(self.values[:count].sum() / self.trace)
        return value, min(float(low), value), max(float(high), value)

    def words(self, count: int) -> str:
        """Return the share of the first n together, in words with its bounds."""
        value, low, high = self.of_first(count)
        if percent(low).replace(".0 %", " %") == percent(high).replace(".0 %", " %"):
            return f"{percent(value)} (exact to the digits shown)"
        between = "estimated to be between" if self.estimated else "between"
        return f"{percent(value)} ({between} {percent(low).removesuffix(' %')} and {percent(high)})"


def shares_of(model: Any) -> Shares:
    """Return the shares of the components of a model."""
    values = np.asarray(model.eigenvalues_, dtype=np.float64)
    bounds = np.asarray(model.eigenvalue_bounds_, dtype=np.float64)
    ratio = float(np.asarray(model.explained_variance_ratio_, dtype=np.float64).sum())
    trace = float(values.sum()) / ratio if ratio > 0 else 1.0
    feature_map = getattr(model, "feature_map_", None)
    chance = feature_map is not None and not (hasattr(feature_map, "landmarks") or isinstance(feature_map, IdentityMap))
    word = "variance" if model.center else "mean square"
    return Shares(values, np.maximum(bounds, 0.0), trace, bool(chance), word)


def spectrum(material: Material) -> Section:
    """Return the section on the eigenvalues."""
    shares = shares_of(material.model)
    k = len(shares.values)
    head = "The component holds" if k == 1 else f"Together the {k:,} components hold"
    parts = [
        paragraph(
            f"{head} {shares.words(k)} of the {shares.word} in feature space, the space in which the kernel compares "
            "rows. A bar is the share of one component; the line adds them up. Where the line flattens, more "
            "components would add little."
        ),
        paragraph(_certificate(material.model, shares)),
        plot("spectrum-plot", f"Bars: share of the {shares.word} of each component; line: their sum so far."),
        _table(shares),
    ]
    return Section("spectrum", "How much the components hold", joined(parts), {"spectrum": _data(shares)})


def _certificate(model: Any, shares: Shares) -> str:
    width = float(np.max((shares.bounds[:, 1] - shares.bounds[:, 0]) / shares.trace, initial=0.0))
    if shares.estimated:
        return (
            "The kernel was approximated by random features: the bounds are estimates from pairs of rows, not proofs. "
            f"The widest is {percent(width)} of the {shares.word} wide."
        )
    landmarks = getattr(getattr(model, "feature_map_", None), "landmarks", None)
    if landmarks is not None:
        return (
            f"The kernel was approximated by {landmarks.shape[0]:,} landmarks. The bounds hold for the exact "
            f"eigenvalues, which the landmarks can only make smaller; the widest is {percent(width)} of the "
            f"{shares.word} wide."
        )
    text = "The bounds are proven from measured residuals, not guessed"
    if width < 1e-3:
        return f"{text}; the widest is {percent(width)} of the {shares.word} wide, too little to see."
    residuals = getattr(model, "residuals_", None)
    near = ""
    if residuals is not None:
        worst = max(float(np.max(residuals, initial=0.0)), 1e-16)
        within = percent(worst) if worst >= 1e-6 else "a millionth"
        near = f" (each value shown is within {within} of the largest of an exact one)"
    return (
        f"{text}{near}. An upper bound also counts what cannot be ruled out without seeing the whole spectrum: that a "
        "larger value was missed altogether. Where it is far above the value, that is caution and no sign of trouble."
    )


def _table(shares: Shares) -> Markup:
    k = min(len(shares.values), _SHOWN_ROWS)
    rows = []
    for j in range(k):
        held = percent(shares.each[j]), percent(shares.of_first(j + 1)[0])
        rows.append([f"{j + 1}", number(shares.values[j]), *_between(shares.bounds[j]), *held])
    more = "" if k == len(shares.values) else f" The first {k} of {len(shares.values):,}."
    titles = ["Component", "Eigenvalue", "At least", "At most", "Share", "Sum so far"]
    return table(titles, rows, caption=f"Eigenvalues with their bounds.{more}")


def _between(bounds: FloatArray) -> tuple[str, str]:
    """Return both bounds in as many digits as it takes to tell them apart, up to ten."""
    low, high = float(bounds[0]), float(bounds[1])
    for digits in range(4, 11):
        texts = number(low, digits), number(high, digits)
        if texts[0] != texts[1]:
            return texts
    return number(low, 6), number(high, 6)


def _data(shares: Shares) -> dict[str, Any]:
    k = min(len(shares.values), _SHOWN_BARS)
    bounds = np.clip(shares.bounds[:k] / shares.trace, 0.0, 1.0)
    each = shares.each[:k]
    return {
        "share": numbers(100 * each),
        "above": numbers(100 * np.maximum(bounds[:, 1] - each, 0.0)),
        "below": numbers(100 * np.maximum(each - bounds[:, 0], 0.0)),
        "sum": numbers(100 * np.minimum(np.cumsum(each), 1.0)),
        "word": shares.word,
    }
