"""Models in files: saved without pickle, loaded without executing anything.

A .kpca file is a container (see `kpca._base.container`) whose header holds the objects of a model as JSON, and whose
arrays are theirs. What a class stores, and what must hold of it, is declared in `kpca.io.portable`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.base import BaseEstimator

from kpca import __version__
from kpca._base.config import MEMORY_LIMIT, memory_budget
from kpca._base.container import read_container, read_header, write_container
from kpca._base.errors import InputError
from kpca.io.portable.pack import Document, packed
from kpca.io.portable.registry import row_of, row_of_tag
from kpca.io.portable.spec import Misfit
from kpca.io.portable.unpack import unpacked

# Library -> version, of what models are made with.
VERSIONS = {
    "kpca": __version__,
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "scikit-learn": sklearn.__version__,
}
_KIND = "model"
_VERSION = 1
# version -> how the header of a file of that version becomes one of the next; files of all versions stay readable.
_UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
_KEYS = {"format", "version", "kind", "model version", "classes", "saved with", "sizes", "about", "objects"}
_SIZES = ("fitted", "rows", "columns", "components")
_DEEPEST_ABOUT = 20
_LONGEST_REASON = 300  # letters
# Bytes from which on the memory that may be used is asked for: small files are not worth the question.
_LARGE = 2**26


@dataclass(frozen=True)
class Header:
    """What a file says about the model in it."""

    kind: str  # its class, such as "KernelPCA"; of a pipeline, that of the last step
    steps: tuple[str, ...]  # the classes of the steps of a pipeline; the class alone otherwise
    fitted: bool
    rows: int | None  # of the fit; None where it is not known
    columns: int | None
    components: int | None
    version: int  # of the format
    saved_with: Mapping[str, str]  # library -> version
    about: Mapping[str, Any]
    n_bytes: int


def save(model: Any, path: str | os.PathLike[str], *, about: Mapping[str, Any] | None = None) -> None:
    """Write a model to a file that holds numbers and texts only, all or nothing.

    Parameters
    ----------
    model : KernelPCA, IncrementalKernelPCA, KernelPCADetector, Nystroem, RandomFeatures, or a Pipeline of scikit-learn
        of these and of its scalers, SimpleImputer, OneHotEncoder and vectorisers; fitted or not. Functions as kernels,
        subclasses and other estimators are refused: a file holds no code.
    path : mostly ending in .kpca; a file that is there is replaced.
    about : what else is to be known of the model, as JSON: texts, numbers, lists and dictionaries.
    """
    row = row_of(model)
    if isinstance(model, type) or not isinstance(model, BaseEstimator) or (row and "estimator" not in row.roles):
        given = f"the class {model.__name__}" if isinstance(model, type) else f"one of {type(model).__name__}"
        raise InputError(f"save needs a model, an object of KernelPCA for example; got {given}: give the model itself.")
    document = packed(model)
    try:
        unpacked(document)  # what is written can be read
        sizes = _sizes_of(model)
    except Misfit as misfit:
        raise InputError(f"A model must be as its fit left it to be saved; {misfit}: fit it again.") from misfit
    header = {
        "kind": _KIND,
        "model version": _VERSION,
        "classes": _classes_of(model),
        "saved with": VERSIONS,
        "sizes": sizes,
        "about": _as_json({} if about is None else about),
        "objects": document.nodes,
    }
    write_container(path, header, document.arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model in a file; all of it is checked first, and nothing in it is executed.

    Results of the model are those of the one that was saved, on the same machine to the bit.
    """
    _, size = read_header(path, _KIND)
    if size > _LARGE and size > memory_budget():
        raise InputError(
            f"{os.fspath(path)} must fit in memory to be loaded; it takes {size / 2**20:,.0f} MiB, and "
            f"{memory_budget() / 2**20:,.0f} may be used",
            remedy=("raise ", MEMORY_LIMIT),
        )
    header, arrays = read_container(path, _KIND)
    header = _current(header, path)
    try:
        _check_header(header)
        if any(array.dtype.str[0] == ">" for array in arrays.values()):
            raise Misfit("its numbers are big endian")
        native = {name: array.astype(array.dtype.newbyteorder("="), copy=False) for name, array in arrays.items()}
        model = unpacked(Document(header["objects"], native))
        row = row_of(model)
        if row is None or "estimator" not in row.roles:
            raise Misfit(f"{type(model).__name__} is no model")
        if header["classes"] != _classes_of(model) or header["sizes"] != _sizes_of(model):
            raise Misfit("its summary is that of another model")
    except Misfit as misfit:
        raise InputError(_unfit(path, misfit, header)) from misfit
    return model


def read_about(path: str | os.PathLike[str]) -> Header:
    """Return what a file says about its model. Only the header is read: it is `load` that checks the rest."""
    header, size = read_header(path, _KIND)
    header = _current(header, path)
    try:
        _check_header(header)
        rows = [row_of_tag(tag) for tag in header["classes"]]
        steps = tuple(row.name for row in rows if row is not None)
        if not steps or len(steps) != len(rows):
            raise Misfit("it names unknown classes")
    except Misfit as misfit:
        raise InputError(_unfit(path, misfit)) from misfit
    more = {"version": header["model version"], "saved_with": header["saved with"], "about": header["about"]}
    return Header(kind=steps[-1], steps=steps, **header["sizes"], **more, n_bytes=size)


# -- what a file says of its model before it is loaded ----------------------------------------------------------------


def named_steps(model: Any, name: str = "model") -> list[tuple[str, Any]]:
    """Return the steps of a pipeline that do something, those of pipelines in it included; of anything else, itself."""
    steps = getattr(model, "__dict__", {}).get("steps")
    if not isinstance(steps, list):
        return [(name, model)]
    real = [(name, step) for name, step in steps if step is not None and not isinstance(step, str)]
    return [inner for name, step in real for inner in named_steps(step, name)]


def steps_of(model: Any) -> list[Any]:
    """Return the steps of a pipeline without their names."""
    return [step for _, step in named_steps(model)]


def _classes_of(model: Any) -> list[str]:
    """Return the tags of the steps of a model."""
    rows = [row_of(step) for step in steps_of(model)]
    return [row.tag for row in rows if row is not None]


def _sizes_of(model: Any) -> dict[str, Any]:
    """Return whether a model is fitted, and to what; None where that is not known."""
    steps = steps_of(model)
    if not steps:
        raise Misfit("a pipeline must have a step that does something")
    row, known = row_of(steps[-1]), vars(steps[-1])
    if row is None or row.fitted.keys().isdisjoint(known):
        return dict.fromkeys(_SIZES, None) | {"fitted": False}
    rows, components = None, known.get("rank_")
    if "eigenvectors_" in known:
        rows, components = len(known["eigenvectors_"]), known["n_components_"]
    elif "_stream" in known:
        stream, wanted = known["_stream"], known["n_components"]
        rows = stream.rows_waiting if stream.scatter is None else stream.scatter.rows
        # what a share of the variance comes to is found out when it is asked for
        components = wanted if isinstance(wanted, Integral) and not isinstance(wanted, bool) else None
    elif "limits_" in known and "_measure" in known:
        rows, components = known["limits_"].rows, len(known["_measure"].variances)
    columns = next((vars(step)["n_features_in_"] for step in steps if "n_features_in_" in vars(step)), None)
    found = zip(_SIZES[1:], (rows, columns, components), strict=True)
    return {"fitted": True, **{name: None if value is None else int(value) for name, value in found}}


def _current(header: dict[str, Any], path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the header as this version writes it."""
    version = header.get("model version")
    if type(version) is not int or version < 1:
        raise InputError(_unfit(path, Misfit("it does not say of which version it is")))
    if version > _VERSION:
        raise InputError(f"{os.fspath(path)} must be of model version {_VERSION} or less, not {version}: update kpca.")
    while header["model version"] < _VERSION:
        header = _UPGRADES[header["model version"]](header)
    return header


def _check_header(header: dict[str, Any]) -> None:
    if set(header) != _KEYS:
        odd = sorted(set(header) ^ _KEYS)[0]
        raise Misfit(f"its header has {ascii(odd)[:40]} too much or too little")
    classes, versions, sizes = header["classes"], header["saved with"], header["sizes"]
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise Misfit("its header must name classes")
    right = isinstance(versions, dict) and all(_is_plain(text) for text in versions.values())
    if not (right and all(map(_is_plain, versions))):
        raise Misfit("its header must say what it was saved with")
    if not isinstance(sizes, dict) or tuple(sizes) != _SIZES or type(sizes["fitted"]) is not bool:
        raise Misfit("its header must say how large the model is")
    if not all(sizes[name] is None or (type(sizes[name]) is int and sizes[name] >= 0) for name in _SIZES[1:]):
        raise Misfit("its header has sizes that cannot be")
    if not isinstance(header["about"], dict) or _depth(header["about"]) > _DEEPEST_ABOUT:
        raise Misfit("its header must hold what is said about the model, not too deeply nested")


def _is_plain(text: Any) -> bool:
    return isinstance(text, str) and text.isprintable() and len(text) <= 100


def _depth(value: Any) -> int:
    """Return how deep lists and dictionaries lie in one another, as far as that matters."""
    depth, level = 0, [value]
    while level and depth <= _DEEPEST_ABOUT:
        inner = [item for item in level if isinstance(item, dict | list)]
        level = [part for item in inner for part in (item.values() if isinstance(item, dict) else item)]
        depth += bool(inner)
    return depth


def _as_json(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said about a model as it will be read, or refuse what JSON has not."""
    if not isinstance(about, Mapping):
        raise InputError(f"about must be a dictionary; got {type(about).__name__}.")
    try:
        read: dict[str, Any] = json.loads(json.dumps(dict(about), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"about must hold what JSON can; {str(error).rstrip('.')}: convert it.") from error
    if _depth(read) > _DEEPEST_ABOUT:
        raise InputError(f"about must be nested at most {_DEEPEST_ABOUT} deep; it is deeper: flatten it.")
    return read


def _unfit(path: str | os.PathLike[str], misfit: Misfit, header: Mapping[str, Any] | None = None) -> str:
    versions = (header or {}).get("saved with")
    saved = versions.get("scikit-learn") if isinstance(versions, dict) else None
    other = ""
    if _is_plain(saved) and str(saved).split(".")[:2] != sklearn.__version__.split(".")[:2]:
        other = f" (it was saved with scikit-learn {saved}, this is {sklearn.__version__})"
    told = str(misfit) if str(misfit).isprintable() else ascii(str(misfit))
    told = told if len(told) <= _LONGEST_REASON else f"{told[:_LONGEST_REASON]}..."  # it may quote what the file says
    return (
        f"{os.fspath(path)} must hold a model whose parts fit each other; {told}{other}: use another copy of the "
        "file, or save the model again."
    )
