"""The map of the rows: interactive, coloured by labels, columns or how unusual a row is."""

from __future__ import annotations

from typing import Any

import numpy as np

from kpca.report.material import Material, Refusal, Section
from kpca.report.packing import Markup, classes_or_numbers, joined, packed, paragraph, plot, shortened, tag, whole
from kpca.report.words import count, percent, visible

_MOST_SCORES, _MOST_COLOURS = 240_000, 120_000  # numbers of the map in the page
_MOST_COMPONENTS, _MOST_COLUMNS = 20, 12
_FAR_OUT = 3.0  # times the limit: what is farther out has the same colour
_ID_LETTERS = 900_000  # of all ids together


def embedding(material: Material) -> Section:
    """Return the section with the map."""
    data = _data(material)
    k = int(material.model.n_components_)
    parts: list[Markup] = [
        paragraph(
            "Each dot is a row. Rows that the kernel finds alike lie close together; an axis is the score of the rows "
            "on a component. "
            + ("There is only one component, so the height has no meaning: it only keeps dots apart." if k == 1 else "")
        ),
        paragraph(
            "Drag to zoom, double-click to see all again, point at a dot to see which row it is. To list rows, choose "
            "“Lasso” or “Box” and draw around them; click on a class to hide or show it.",
            class_="screen",
        ),
        _controls(len(data["components"]), data["colours"]),
        tag("div", id="legend", class_="legend", role="group", aria_label="Classes; click to hide or show one"),
        plot("embedding-plot", "Map of the rows by their scores; the selected rows are listed below it."),
        tag("p", id="embedding-note", class_="caption", hidden="hidden"),
        paragraph(_caption(material, len(data["components"]), data.pop("cut")), class_="caption"),
        _selection(),
    ]
    return Section("map", "The map of the rows", joined(parts), {"embedding": data})


def _data(material: Material) -> dict[str, Any]:
    scores, m = material.scores, len(material.rows)
    shown = min(scores.shape[1], _MOST_COMPONENTS, max(3, _MOST_SCORES // m))
    shares = np.asarray(material.model.explained_variance_ratio_, dtype=np.float64)
    ids, cut = shortened(material.id_texts, _ID_LETTERS)
    data: dict[str, Any] = {
        "components": [
            {"name": f"component {j + 1} ({percent(shares[j])})", "scores": packed(scores[:, j])} for j in range(shown)
        ],
        "ids": ids,
        "colours": _colours(material),
        "cut": cut,
    }
    if not np.array_equal(material.numbers, np.arange(m)):
        data["rows"] = whole(material.numbers)
    return data


def _colours(material: Material) -> list[dict[str, Any]]:
    """Return what dots may be coloured by, the first one first."""
    made = []
    if material.labels is not None:
        made.append({"name": "label", **classes_or_numbers(material.labels)})
    if not isinstance(material.anomalies, Refusal):
        # rows far out are not to take the whole scale, nor its digits
        values = packed(np.minimum(material.anomalies.ratio, _FAR_OUT))
        made.append({"name": "how unusual (1 is the limit)", "kind": "numbers", "values": values, "most": _FAR_OUT})
    for j in _columns(material):
        made.append({"name": visible(material.names[j], 40), **classes_or_numbers(material.column(j), most=2)})
    return made


def _columns(material: Material) -> list[int]:
    """Return the columns that dots may be coloured by: the most important, or those that vary most."""
    most = min(material.X.shape[1], _MOST_COLUMNS, max(3, _MOST_COLOURS // len(material.rows)))
    if not isinstance(material.influence, Refusal):
        order = material.influence.order
    elif material.sparse:
        order = np.argsort(-np.diff(material.X.tocsc().indptr), kind="stable")
    else:
        order = np.argsort(-np.var(np.asarray(material.X, dtype=np.float64), axis=0), kind="stable")
    return [int(j) for j in order[:most]]


def _caption(material: Material, shown: int, cut: int | None) -> str:
    m, k = len(material.rows), material.scores.shape[1]
    sample = f"A sample of {m:,} of the {material.of_rows:,} rows, always the same"
    text = [sample if material.sampled else count(m, "row")]
    if shown < k:
        text.append(f"the first {shown} of {k} components can be chosen")
    if cut is not None:
        text.append(f"ids are cut after {cut} letters to keep this file small")
    return "; ".join(text) + "."


def _controls(components: int, colours: list[dict[str, Any]]) -> Markup:
    numbers = [str(j + 1) for j in range(components)]
    fields = []
    if components > 1:
        fields += [_field("axis-x", "Across", numbers, 0), _field("axis-y", "Up", numbers, 1)]
    if components > 2:
        fields.append(_field("axis-z", "Depth", numbers, 2, hidden=True))
    names = [colour["name"] for colour in colours]
    fields.append(_field("colour-by", "Colour", ["none", *names], 1 if names else 0))
    modes = {"zoom": "Zoom", "pan": "Move", "lasso": "Lasso", "select": "Box", "reset": "Reset", "3d": "3-D"}
    if components < 3:
        del modes["3d"]
    buttons = []
    for mode, title in modes.items():
        pressed = None if mode == "reset" else "true" if mode == "zoom" else "false"
        buttons.append(tag("button", title, id=f"mode-{mode}", type="button", aria_pressed=pressed))
    return tag("div", *fields, tag("span", *buttons, class_="buttons"), class_="controls")


def _field(id_: str, title: str, options: list[str], chosen: int, *, hidden: bool = False) -> Markup:
    made = [
        tag("option", text, value=str(place), selected="selected" if place == chosen else None)
        for place, text in enumerate(options)
    ]
    select = tag("select", *made, id=id_)
    return tag("label", f"{title} ", select, id=f"{id_}-label", hidden="hidden" if hidden else None)


def _selection() -> Markup:
    off = {"type": "button", "disabled": "disabled"}
    listed = {"readonly": "readonly", "rows": "6", "aria_label": "Ids of the selected rows", "hidden": "hidden"}
    copy = tag("button", "Copy", id="selected-copy", **off)
    csv = tag("button", "Download as CSV", id="selected-csv", **off)
    return tag(
        "div",
        tag("h3", "Selected rows"),
        tag("p", "None yet.", id="selected-count", aria_live="polite"),
        tag("textarea", id="selected-ids", **listed),
        tag("p", copy, " ", csv, " ", tag("span", id="selected-told", role="status")),
        class_="selection screen",
    )
