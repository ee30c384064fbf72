"""What drives the components: columns, and the rows at their ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpca import explain
from kpca.report.material import Influence, Material, Refusal
from kpca.report.packing import grey_picture
from kpca.report.sections import Section, not_here
from kpca.report.words import Markup, bar, count, joined, label, name, number, paragraph, picture, table, tag, visible

_TOP = 10  # columns that have bars
_COMPONENTS = 3  # components that have columns of bars, and pictures
_ENDS = 3  # rows at each end
_END_COMPONENTS = 5


def variables(material: Material) -> Section:
    """Return the section on columns and extreme rows."""
    found = material.influence
    parts: list[Markup] = []
    if isinstance(found, Refusal):
        parts.append(not_here("Which columns drive the components cannot be said.", found))
    else:
        parts += _influence(material, found)
    parts += _extremes(material)
    return Section("variables", "What drives the components", joined(parts))


def _influence(material: Material, found: Influence) -> list[Markup]:
    if material.subject.image_shape is not None:
        return [_maps(material, found)]
    if found.how == "correlated":
        how = (
            "There are no gradients here, so a bar only shows how closely a column goes along with a component: the "
            f"size of their correlation, 0 to 1, over {count(found.rows, 'row')}."
        )
    elif found.how == "shuffled":
        how = (
            "There are no gradients here, so each column was shuffled in turn: a bar is the share of a component's "
            f"variance that is lost without the column, over {count(found.rows, 'row')}."
        )
    else:
        how = (
            "A bar shows how much the score of a row changes if the column changes by its standard deviation, "
            f"on average over {count(found.rows, 'row')}; overall, components count by the variance they hold. Bars "
            "are relative to the longest of their column."
        )
    return [paragraph(how), _bars(material, found)]


def _bars(material: Material, found: Influence) -> Markup:
    shown = min(len(found.by_component), _COMPONENTS)
    lines = [found.overall] if shown == 1 else [found.overall, *found.by_component[:shown]]
    tops = [float(line.max(initial=0.0)) or 1.0 for line in lines]
    best = found.order[:_TOP]
    rows: list[list[Any]] = [
        [
            name(material.names[j], 48),
            *(bar(line[j] / top, number(line[j], 3)) for line, top in zip(lines, tops, strict=True)),
        ]
        for j in best
    ]
    titles = ["Column", "Overall", *(f"Component {j + 1}" for j in range(len(lines) - 1))]
    d = len(found.overall)
    which = "All columns" if d <= _TOP else f"The {_TOP} most important of {d:,} columns"
    return table(titles, rows, caption=f"{which}, most important first.", left=range(len(titles)))


def _maps(material: Material, found: Influence) -> Markup:
    """Return the importance of the dots of a picture, as pictures."""
    assert material.subject.image_shape is not None
    lines = [("Overall", found.overall)]
    if len(found.by_component) > 1:
        lines += [(f"Component {j + 1}", line) for j, line in enumerate(found.by_component[:_COMPONENTS])]
    made = []
    for title, line in lines:
        grey = grey_picture(line.reshape(material.subject.image_shape), 0.0, float(line.max(initial=0.0)) or 1.0)
        made.append(picture(grey, f"{title}: the importance of each dot of a picture, white for the largest", title))
    over = count(found.rows, "row")
    text = f"Which dots of a picture move the components: white dots most, black dots not at all (over {over})."
    return joined([paragraph(text), tag("div", *made, class_="pictures")])


def _extremes(material: Material) -> list[Markup]:
    """Return the rows at both ends of the first components."""
    m, k = material.scores.shape
    count_of = min(_ENDS, m // 2) or 1
    ends = _ends_of(material, min(k, _END_COMPONENTS), count_of)
    head = paragraph(
        "The rows at the two ends of a component often tell what it is about. Which end is high is a matter of "
        "convention: the sign of a component has no meaning."
    )
    if material.subject.image_shape is not None:
        return [head, *(_end_pictures(material, ends, j) for j in range(len(ends.components)))]
    rows = []
    for j in range(len(ends.components)):
        for side, places, scores in (
            ("high", ends.highest[j], ends.highest_scores[j]),
            ("low", ends.lowest[j], ends.lowest_scores[j]),
        ):
            who = [
                joined([_called(material, int(i)), f" ({number(t, 3)})"]) for i, t in zip(places, scores, strict=True)
            ]
            rows.append([f"{j + 1}, {side}", joined(_separated(who))])
    caption = "The rows with the highest and lowest scores; scores in brackets."
    return [head, table(["Component and end", "Rows"], rows, caption=caption, left=(0, 1))]


def _ends_of(material: Material, components: int, n: int) -> explain.Extremes:
    scores = material.scores[:, :components].T
    lowest, highest = (np.argsort(sign * scores, axis=1, kind="stable")[:, :n] for sign in (1, -1))
    return explain.Extremes(
        np.arange(components),
        lowest,
        highest,
        np.take_along_axis(scores, lowest, axis=1),
        np.take_along_axis(scores, highest, axis=1),
        material.ids,
    )


def _called(material: Material, row: int) -> Markup:
    """Return the id of a row, and its label."""
    text = material.id_texts[row]
    if material.labels is None:
        return name(text, 40)
    return joined([name(text, 40), f" [{label(material.labels[row])}]"])


def _separated(parts: list[Markup]) -> list[Any]:
    return [piece for part in parts for piece in (", ", part)][1:]


def _end_pictures(material: Material, ends: explain.Extremes, j: int) -> Markup:
    places = [*ends.lowest[j], *ends.highest[j][::-1]]
    low, high = material.picture_range
    made = []
    for i in places:
        values = material.dense[i].reshape(material.subject.image_shape)
        title = (
            material.id_texts[i] if material.labels is None else f"{material.id_texts[i]} [{label(material.labels[i])}]"
        )
        made.append(picture(grey_picture(values, low, high), f"row {title}", visible(title, 24)))
    return joined(
        [
            tag("h3", f"Component {j + 1}: lowest scores on the left, highest on the right"),
            tag("div", *made, class_="pictures"),
        ]
    )
