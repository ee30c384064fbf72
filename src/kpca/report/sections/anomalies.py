"""Rows that do not belong: how far out, and because of which columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.report.markup import Markup, joined, name, paragraph, plot, table, tag
from kpca.report.material import Anomalies, Material, Refusal, attempt
from kpca.report.packing import packed, whole
from kpca.report.sections.base import Section, not_here
from kpca.report.words import count, label, number, percent, sentence

_TOP = 10  # rows in the table
_MOST_DRAWN = 4000  # dots of the chart
_CAUSES = 3  # columns that are named for each
_TITLE = "Unusual rows"


def anomalies(material: Material) -> Section:
    """Return the section on unusual rows."""
    found = material.anomalies
    if isinstance(found, Refusal):
        return Section("anomalies", _TITLE, not_here("Unusual rows could not be looked for.", found))
    level = f"{100 * found.detector.confidence:g} %"
    drawn = _drawn(found)
    parts: list[Markup] = [
        paragraph(
            "A detector of its own, with default settings, looked at the same rows: it learns from them what is usual "
            "for single columns and for relations between columns, and gives each row a distance from that. The limit "
            f"is set such that about {level} of usual rows are within it, so a few rows beyond it are to be expected: "
            "those far beyond deserve a look."
        ),
        paragraph(_how_many(material, found)),
        *(paragraph("Note: ", sentence(text), class_="caption") for text in found.warned),
        plot("chart-plot", "Control chart: the distance of each row in units of the limit, in the order of the rows."),
        paragraph(
            "Each dot is a row, in the order of the data; the line at 1 is the limit."
            + (
                ""
                if len(drawn) == len(found.statistic)
                else f" All rows beyond the limit are drawn, and a part of the others: {len(drawn):,} dots."
            ),
            class_="caption",
        ),
    ]
    parts += _farthest(material, found)
    data = {"chart": {"ratio": packed(_ratio(found)[drawn]), "rows": whole(drawn)}}
    return Section("anomalies", _TITLE, joined(parts), data)


def _how_many(material: Material, found: Anomalies) -> str:
    beyond, m = int(found.beyond.sum()), len(found.statistic)
    of = f"{count(m, 'row')}{' of the map' if material.sampled else ''}"
    text = f"None of the {of} is beyond the limit."
    if beyond:
        text = f"{count(beyond, 'row is', 'rows are')} beyond the limit, {percent(beyond / m)} of {of}."
    if found.learned < m:
        text += f" What is usual was learned from {count(found.learned, 'row')}."
    return text


def _drawn(found: Anomalies) -> NDArray[np.intp]:
    """Return the rows of the chart: all, or the farthest half of so many, and evenly spread ones of the others."""
    m = len(found.statistic)
    if m <= _MOST_DRAWN:
        return np.arange(m)
    far = np.argsort(-found.statistic, kind="stable")[: max(_MOST_DRAWN // 2, int(found.beyond.sum()))]
    others = np.setdiff1d(np.arange(m), far)
    spread = others[np.linspace(0, len(others) - 1, min(len(others), _MOST_DRAWN // 2)).astype(np.intp)]
    return np.union1d(far, spread)


def _ratio(found: Anomalies) -> NDArray[Any]:
    """Return log10 of the statistic in units of the limit: it spans many powers of ten.  # shape: (m,)"""
    limit = found.limit if found.limit > 0 else 1.0
    return np.log10(np.maximum(found.statistic / limit, 1e-12))


def _farthest(material: Material, found: Anomalies) -> list[Markup]:
    order = np.argsort(-found.statistic, kind="stable")[: min(_TOP, len(found.statistic))]
    causes = attempt(lambda: found.detector.contributions(material.X[order]).values)
    titles: list[Any] = ["Row", *([] if material.labels is None else ["Label"]), "Distance", "Limit", "Times the limit"]
    texts = [0] if material.labels is None else [0, 1]
    rows: list[list[Any]] = []
    for place, i in enumerate(order):
        row: list[Any] = [name(material.id_texts[i], 40)]
        if material.labels is not None:
            row.append(label(material.labels[i]))
        row += [number(found.statistic[i]), number(found.limit), number(_times(found, i), 3)]
        if not isinstance(causes, Refusal):
            row.append(_named(material, causes[place], int(i)))
        rows.append(row)
    if not isinstance(causes, Refusal):
        titles.append(tag("span", "Columns that contribute most: value here (median)", class_="texts"))
        texts.append(len(titles) - 1)
    made = [table(titles, rows, caption=f"The {count(len(order), 'row')} farthest out.", left=texts)]
    if isinstance(causes, Refusal):
        made.append(not_here("Which columns are behind it cannot be said.", causes))
    return made


def _times(found: Anomalies, i: int) -> float:
    return float(found.statistic[i] / found.limit) if found.limit > 0 else float("inf")


def _named(material: Material, contributions: NDArray[Any], row: int) -> Markup:
    """Return the columns that contribute most to a row, with its values in them."""
    best = [j for j in np.argsort(-contributions, kind="stable")[:_CAUSES] if contributions[j] > 0]
    parts: list[Any] = []
    for j in best:
        column = material.column(int(j))
        usual = number(float(np.median(column)), 3)
        parts += [", " if parts else "", name(material.names[j], 32), f" {number(column[row], 3)} ({usual})"]
    return joined(parts or ["none stands out"])
