"""A model card: what a model is, what it was made from, how far to trust it, in Markdown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from kpca._base.errors import InputError
from kpca._base.files import write_whole
from kpca.estimators import summary
from kpca.io.models import VERSIONS, steps_of

_MOST_COMPONENTS = 20
_LONGEST = 200
_SPECIAL = re.compile(r"([\\`*_\[\]|~$])")
# What Markdown of some kinds makes links and mentions of, without any markup.
_LIVELY = {"://": ":&#47;&#47;", "www.": "www&#46;", "@": "&#64;"}


def model_card(model: Any, about: Mapping[str, Any] | None = None) -> str:
    """Return a model card in Markdown.

    Parameters
    ----------
    model : an estimator of this package, or a pipeline of scikit-learn that ends in one; fitted or not.
    about : what else is known: of the data, the command, the seed; as `kpca.io.models.save` takes it.
    """
    if isinstance(model, type) or not isinstance(model, BaseEstimator):
        raise InputError(f"model_card needs a model, a KernelPCA for example; got {text_of(type(model).__name__)}.")
    if about is not None and not isinstance(about, Mapping):
        raise InputError(f"about must be a dictionary; got {type(about).__name__}.")
    *before, last = steps_of(model) or [model]
    core = vars(last).get("model_", last)  # a detector stands on a model
    shown = summary.is_shown(core)
    parts = [
        [f"# Model card: {escaped(type(last).__name__)}"],
        _summary(last, core, before, shown),
        _section("Data", _table(("fact", "value"), ((escaped(n), escaped(v)) for n, v in _flat(about or {})))),
        _section("Preparation", _preparation(before)),
        _section("Parameters", _parameters(last)),
        _section("Spectrum", _spectrum(core) if shown else ()),
        _section("Certificate", _certificate(core) if shown else ()),
        _section("Limits of normal rows", _limits(last)),
        _section("Inverse map", _inverse(core) if core is last and shown else ()),
        _section("Intended use and limits", _use(last, core, shown)),
        _section("How to load it", ["```python", "import kpca", "", 'model = kpca.load("model.kpca")', "```"]),
        _section("Versions", _table(("library", "version"), VERSIONS.items())),
    ]
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def escaped(value: Any) -> str:
    """Return a value as text that Markdown and HTML leave alone: one line, nothing that is markup."""
    text = text_of(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _SPECIAL.sub(r"\\\1", text)
    for lively, still in _LIVELY.items():
        text = text.replace(lively, still)
    return text


def text_of(value: Any) -> str:
    """Return a value on one line, without characters that cannot be printed, and not too long."""
    if isinstance(value, np.ndarray):
        value = f"array of shape {value.shape}"
    text = " ".join(str(value).split())
    text = "".join(mark if mark.isprintable() else "?" for mark in text)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _section(title: str, lines: Iterable[str]) -> list[str]:
    lines = list(lines)
    return ["", f"## {title}", "", *lines] if lines else []


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    body = [f"| {' | '.join(row)} |" for row in rows]
    return [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *body] if body else []


_KINDS = {
    "KernelPCA": "Kernel PCA: the directions in which rows vary most, as a kernel sees them.",
    "IncrementalKernelPCA": "Kernel PCA of a stream, from explicit features of its rows.",
    "KernelPCADetector": "Anomaly detection by kernel PCA: how far rows are from what is normal.",
    "Nystroem": "Features of rows whose dot products stand for kernel values, from landmarks.",
    "RandomFeatures": "Features of rows whose dot products stand for kernel values, drawn at random.",
}


def _summary(last: Any, core: Any, before: list[Any], shown: bool) -> list[str]:
    lines = ["", _KINDS.get(type(last).__name__, f"An estimator of the class {escaped(type(last).__name__)}.")]
    if before:
        steps = " → ".join(escaped(type(step).__name__) for step in [*before, last])
        lines += ["", f"Steps: {steps}."]
    columns = vars(last).get("n_features_in_")
    if columns is None:
        return [*lines, "", "It is not fitted."]
    if shown:
        lines += ["", f"{summary.explained(core)}; the rows have {columns:,} columns."]
    else:
        lines += ["", f"It is fitted to rows of {columns:,} columns."]
    if hasattr(last, "feature_names_in_"):
        names = [escaped(name) for name in last.feature_names_in_[:_MOST_COMPONENTS]]
        more = f" and {columns - len(names):,} more" if columns > len(names) else ""
        lines += ["", f"Columns: {', '.join(names)}{more}."]
    return lines


def _flat(about: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in about.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{name}: ")
        else:
            yield f"{prefix}{name}", ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _preparation(steps: list[Any]) -> list[str]:
    lines: list[Any] = []
    for step in steps:
        told = getattr(step, "describe", None)
        lines += told() if callable(told) and "n_features_in_" in vars(step) else [step]
    return [f"- {escaped(line)}" for line in lines]


def _parameters(last: Any) -> list[str]:
    rows = [(escaped(name), escaped(value)) for name, value in last.get_params(deep=False).items()]
    kernel = getattr(vars(last).get("model_", last), "kernel_", None)
    if kernel is not None and "n_features_in_" in vars(last):
        rows.append(("kernel as fitted", escaped(kernel)))
    return _table(("parameter", "value"), rows)


def _spectrum(core: Any) -> list[str]:
    table = summary.spectrum_of(core)
    total, rows = 0.0, []
    for j, (value, (low, high), share) in enumerate(zip(table.values, table.bounds, table.shares, strict=True)):
        total += float(share)
        if j < _MOST_COMPONENTS:
            rows.append((str(j + 1), f"{value:.6g}", f"{low:.6g} to {high:.6g}", f"{share:.2%}", f"{total:.2%}"))
    lines = _table(("component", "eigenvalue", "bounds", f"share of the {summary.whole_of(core)}", "together"), rows)
    if len(table.values) > _MOST_COMPONENTS:
        lines += ["", f"{len(table.values)} components in all, which together have {total:.2%}."]
    if hasattr(core, "n_components_reason_"):
        lines += ["", f"Number of components: {escaped(core.n_components_reason_)}"]
    return lines


def _certificate(core: Any) -> list[str]:
    told = summary.certificate(core)
    lines = [f"- {told[:1].upper()}{told[1:]}."]
    if hasattr(core, "residuals_"):
        lines.append(f"- Solver: {escaped(core.solver_)}; passes over the kernel matrix: {core.n_passes_}.")
    error = summary.approximation_error(core)
    lines.append(f"- Approximation: {error or 'none, the kernel is used as it is'}.")
    if "_stream" in vars(core):
        lines.append(f"- Batches: {core.batches_seen_}; share of the trace not in features: {core.unexplained_:.3g}.")
    return lines


def _limits(last: Any) -> list[str]:
    limits = vars(last).get("limits_")
    if limits is None:
        return []
    rows = [(name, f"{limits[name]:.6g}") for name in ("t2", "spe", "combined")]
    judged = f"Rows are judged by {escaped(last.statistic)}; {limits.confidence:.1%} of normal rows are to stay within."
    origin = f"The limits are from {limits.rows:,} rows, by {limits.method}."
    return [*_table(("statistic", "limit"), rows), "", judged, origin]


def _inverse(core: Any) -> list[str]:
    if core.preimage is None and not getattr(core, "fit_inverse_transform", False):
        return ["None: scores cannot be turned back into rows. Fit with preimage='auto' to have one."]
    told = core.preimage_report_
    return [f"By {escaped(told.method)}: {escaped(told.reason)}."]


def _use(last: Any, core: Any, shown: bool) -> list[str]:
    lines = [
        "- For rows of the same columns, in the same units and treated in the same way as those of the fit.",
        "- Rows unlike those of the fit get scores too; far from them, those of a local kernel say little.",
        "- Components are directions of variance, not causes; their signs are a convention.",
    ]
    if shown and summary.rows_of(core) < 10 * max(len(summary.spectrum_of(core).values), 1):
        lines.append("- There are fewer than ten rows for each component: the last ones may be noise.")
    if vars(core).get("X_fit_") is not None and getattr(core, "kernel_", None) is not None:
        lines.append("- The model holds rows of the data it was fitted to: share it only where the data may be shared.")
    elif "_stream" in vars(core) or hasattr(core, "feature_map_"):
        lines.append("- The model may hold rows of its data, as landmarks or samples: share it like the data.")
    if "limits_" in vars(last):
        lines.append("- Single rows beyond a limit are to be expected; kpca.detector.monitor asks for several.")
    return lines


def write_card(model: Any, path: str | os.PathLike[str], about: Mapping[str, Any] | None = None) -> None:
    """Write a model card to a Markdown file, whole or not at all."""
    write_whole(path, model_card(model, about).encode("utf-8"))
