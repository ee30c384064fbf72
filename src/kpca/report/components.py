"""What was chosen, and why; the map of the rows; and how much the components hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kpca.estimators.incremental import IncrementalKernelPCA
from kpca.report.material import FloatArray, Material, Refusal, attempt
from kpca.report.packing import Markup, bullets, classes_or_numbers, numbers, packed, plot, shortened, table, tag, whole
from kpca.report.words import count, number, percent, sentence, visible

_AS_SEEN = " Rows are meant as the model sees them, after the treatment above."


def choice(material: Material) -> Iterator[Markup]:
    """Make the section on the model."""
    kernel = material.model.kernel_
    yield bullets(sentence(text) for text in material.subject.chosen)
    yield tag("p", "The kernel, which says how alike two rows x and y are:")
    yield tag("p", f"k(x, y) = {kernel.formula(number)}", class_="formula")
    yield tag("p", kernel.meaning(number), _AS_SEEN if material.subject.data.treated else "")
    yield tag("p", _components(material.model))
    yield tag("p", _solution(material.model))


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
    feature_map: Any = getattr(model, "feature_map_", None)
    features = ""  # in words, what stands for the kernel
    if getattr(feature_map, "landmarks", None) is not None:
        landmarks = count(feature_map.landmarks.shape[0], "landmark")
        features = f"each row was compared with {landmarks}, rows chosen to stand for all"
    elif feature_map is not None:
        random = count(feature_map.rank, "random feature")
        features = f"each row was replaced by {random}, whose products stand for the kernel"
    plan = attempt(lambda: model.plan_)
    if isinstance(plan, Refusal):
        return f"How it was computed: {features}." if features else f"The plan cannot be shown: {plan}"
    route = str(plan).splitlines()[0].partition(", ")[2].rstrip(".")
    return f"How it was computed: {features or route}. Why: {sentence(plan.reason)}"


# -- The map of the rows: interactive, coloured by labels, columns or how unusual a row is ----------------------------

_MOST_SCORES, _MOST_COLOURS = 240_000, 120_000  # numbers of the map in the page
_MOST_COMPONENTS, _MOST_COLUMNS = 20, 12
_FAR_OUT = 3.0  # times the limit: what is farther out has the same colour
_ID_LETTERS = 900_000  # of all ids together
_SELECTION = Markup(
    """<div class="selection screen"><h3>Selected rows</h3>
<p id="selected-count" aria-live="polite">None yet.</p>
<textarea id="selected-ids" readonly="readonly" rows="6" aria-label="Ids of the selected rows"\
 hidden="hidden"></textarea>
<p><button id="selected-copy" type="button" disabled="disabled">Copy</button>
 <button id="selected-csv" type="button" disabled="disabled">Download as CSV</button>
 <span id="selected-told" role="status"></span>
</p>
</div>
"""
)


def embedding(material: Material) -> Iterator[Markup]:
    """Make the section with the map."""
    scores, (m, k) = material.scores, material.scores.shape
    shown = min(k, _MOST_COMPONENTS, max(3, _MOST_SCORES // m))
    shares = np.asarray(material.model.explained_variance_ratio_, dtype=np.float64)
    ids, cut = shortened(material.id_texts, _ID_LETTERS)
    axes = [{"name": f"component {j + 1} ({percent(shares[j])})", "scores": packed(scores[:, j])} for j in range(shown)]
    colours = _colours(material)
    material.drawings["embedding"] = {"components": axes, "ids": ids, "colours": colours}
    if not np.array_equal(material.numbers, np.arange(m)):
        material.drawings["embedding"]["rows"] = whole(material.numbers)
    yield tag(
        "p",
        "Each dot is a row. Rows that the kernel finds alike lie close together; an axis is the score of the rows "
        "on a component. "
        + ("There is only one component, so the height has no meaning: it only keeps dots apart." if k == 1 else ""),
    )
    yield tag(
        "p",
        "Drag to zoom, double-click to see all again, point at a dot to see which row it is. To list rows, choose "
        "“Lasso” or “Box” and draw around them; click on a class to hide or show it.",
        class_="screen",
    )
    yield _controls(shown, [colour["name"] for colour in colours])
    yield tag("div", id="legend", class_="legend", role="group", aria_label="Classes; click to hide or show one")
    yield plot("embedding-plot", "Map of the rows by their scores; the selected rows are listed below it.")
    yield tag("p", id="embedding-note", class_="caption", hidden="hidden")
    sample = f"A sample of {m:,} of the {material.of_rows:,} rows, always the same"
    text = [sample if material.sampled else count(m, "row")]
    if shown < k:
        text.append(f"the first {shown} of {k} components can be chosen")
    if cut is not None:
        text.append(f"ids are cut after {cut} letters to keep this file small")
    yield tag("p", "; ".join(text) + ".", class_="caption")
    yield _SELECTION


def _colours(material: Material) -> list[dict[str, Any]]:
    """Return what dots may be coloured by, the first one first."""
    made = []
    if material.labels is not None:
        made.append({"name": "label", **classes_or_numbers(material.labels)})
    if not isinstance(material.anomalies, Refusal):
        # rows far out are not to take the whole scale, nor its digits
        values = packed(np.minimum(material.anomalies.ratio, _FAR_OUT))
        made.append({"name": "how unusual (1 is the limit)", "kind": "numbers", "values": values, "most": _FAR_OUT})
    if not isinstance(material.influence, Refusal):
        order = material.influence.order
    elif material.sparse:  # those that vary most
        order = np.argsort(-np.diff(material.X.tocsc().indptr), kind="stable")
    else:
        order = np.argsort(-np.var(np.asarray(material.X, dtype=np.float64), axis=0), kind="stable")
    for j in order[: min(_MOST_COLUMNS, max(3, _MOST_COLOURS // len(material.rows)))].tolist():
        made.append({"name": visible(material.names[j], 40), **classes_or_numbers(material.column(j), most=2)})
    return made


def _controls(components: int, colours: list[str]) -> Markup:
    axes = [str(j + 1) for j in range(components)]
    fields = [("axis-x", "Across", axes, 0), ("axis-y", "Up", axes, 1)] if components > 1 else []
    fields += [("axis-z", "Depth", axes, 2)] if components > 2 else []
    made = []
    for id_, title, options, chosen in [*fields, ("colour-by", "Colour", ["none", *colours], int(bool(colours)))]:
        inside = (
            tag("option", text, value=str(place), selected="selected" if place == chosen else None)
            for place, text in enumerate(options)
        )
        hidden = "hidden" if id_ == "axis-z" else None
        made.append(tag("label", f"{title} ", tag("select", *inside, id=id_), id=f"{id_}-label", hidden=hidden))
    modes = {"zoom": "Zoom", "pan": "Move", "lasso": "Lasso", "select": "Box", "reset": "Reset", "3d": "3-D"}
    if components < 3:
        del modes["3d"]
    buttons = []
    for mode, title in modes.items():
        pressed = None if mode == "reset" else "true" if mode == "zoom" else "false"
        buttons.append(tag("button", title, id=f"mode-{mode}", type="button", aria_pressed=pressed))
    return tag("div", *made, tag("span", *buttons, class_="buttons"), class_="controls")


# -- How much of the variance the components hold, with bounds --------------------------------------------------------

_SHOWN_ROWS, _SHOWN_BARS = 12, 50


@dataclass(frozen=True)
class Shares:
    """Eigenvalues as shares of the variance, with bounds."""

    values: FloatArray  # eigenvalues, shape: (k,)
    bounds: FloatArray  # shape: (k, 2)
    trace: float
    estimated: bool  # the bounds are estimates: random features
    word: str  # "variance", or what takes its place without centring

    def words(self, count: int) -> str:
        """Return the share of the first n together, in words with its bounds."""
        value = float(self.values[:count].sum() / self.trace)
        low, high = np.clip(self.bounds[:count].sum(axis=0) / self.trace, 0.0, 1.0)
        least, most = percent(min(float(low), value)), percent(max(float(high), value))
        if least.replace(".0 %", " %") == most.replace(".0 %", " %"):
            return f"{percent(value)} (exact to the digits shown)"
        between = "estimated to be between" if self.estimated else "between"
        return f"{percent(value)} ({between} {least.removesuffix(' %')} and {most})"


def shares_of(model: Any) -> Shares:
    """Return the shares of the components of a model."""
    values = np.asarray(model.eigenvalues_, dtype=np.float64)
    bounds = np.asarray(model.eigenvalue_bounds_, dtype=np.float64)
    ratio = float(np.asarray(model.explained_variance_ratio_, dtype=np.float64).sum())
    trace = float(values.sum()) / ratio if ratio > 0 else 1.0
    proven = bool(getattr(getattr(model, "feature_map_", None), "exact", True))
    word = "variance" if model.center else "mean square"
    return Shares(values, np.maximum(bounds, 0.0), trace, not proven, word)


def spectrum(material: Material) -> Iterator[Markup]:
    """Make the section on the eigenvalues."""
    shares = shares_of(material.model)
    k = len(shares.values)
    each = shares.values / shares.trace
    head = "The component holds" if k == 1 else f"Together the {k:,} components hold"
    yield tag(
        "p",
        f"{head} {shares.words(k)} of the {shares.word} in feature space, the space in which the kernel compares "
        "rows. A bar is the share of one component; the line adds them up. Where the line flattens, more "
        "components would add little.",
    )
    yield tag("p", _certificate(material.model, shares))
    yield plot("spectrum-plot", f"Bars: share of the {shares.word} of each component; line: their sum so far.")
    rows = []
    for j in range(min(k, _SHOWN_ROWS)):
        low, high = shares.bounds[j]
        digits = next((n for n in range(4, 11) if number(low, n) != number(high, n)), 6)  # that tell them apart
        so_far = percent(shares.values[: j + 1].sum() / shares.trace)
        bounds = number(low, digits), number(high, digits)
        rows.append([f"{j + 1}", number(shares.values[j]), *bounds, percent(each[j]), so_far])
    more = "" if k <= _SHOWN_ROWS else f" The first {_SHOWN_ROWS} of {k:,}."
    titles = ["Component", "Eigenvalue", "At least", "At most", "Share", "Sum so far"]
    yield table(titles, rows, caption=f"Eigenvalues with their bounds.{more}")
    each = each[:_SHOWN_BARS]
    below, above = np.clip(shares.bounds[:_SHOWN_BARS] / shares.trace, 0.0, 1.0).T
    material.drawings["spectrum"] = {
        "share": numbers(100 * each),
        "above": numbers(100 * np.maximum(above - each, 0.0)),
        "below": numbers(100 * np.maximum(each - below, 0.0)),
        "sum": numbers(100 * np.minimum(np.cumsum(each), 1.0)),
        "word": shares.word,
    }


def _certificate(model: Any, shares: Shares) -> str:
    width = float(np.max((shares.bounds[:, 1] - shares.bounds[:, 0]) / shares.trace, initial=0.0))
    landmarks = getattr(getattr(model, "feature_map_", None), "landmarks", None)
    if shares.estimated:
        by = "random features" if landmarks is None else f"{landmarks.shape[0]:,} landmarks, and it is not definite"
        return (
            f"The kernel was approximated by {by}: the bounds are estimates from pairs of rows, not proofs. "
            f"The widest is {percent(width)} of the {shares.word} wide."
        )
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
