"""What a class declares to be stored: one row of the registry each.

Of a dataclass, annotations say most; a row adds what they leave open: lengths of arrays, and ranges.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

from kpca.io.portable.spec import (
    Count,
    Dtype,
    Either,
    Fixed,
    Flag,
    Matrix,
    Named,
    Number,
    Several,
    Spec,
    Text,
    Texts,
    floats,
    maybe,
    of,
    whole,
)

# -- What annotations of dataclasses stand for ------------------------------------------------------------------------

_SIDE = floats("d", finite=False)
_ANNOTATED: dict[str, Spec] = {
    "bool": Flag(),
    "np.dtype[Any]": Dtype(),
    "dtype": Dtype(),
    # One number, or one per column. Kernels check the range of their parameters themselves.
    "float | tuple[float, ...]": Either((Number(), Several(Number(), letter="d"))),
    "Box": Fixed((_SIDE, _SIDE)),
    "Kernel": of("kernel", "d"),
    "kernels.Kernel": of("kernel", "d"),
    "RadialKernel": of("radial kernel", "d"),
    "FeatureMap": of("feature map", "r d"),
    "FittedMap": of("fitted feature map", "r d"),
    "Part": of("part of a feature map"),
    "Projection": of("random projection"),
    "Centre": of("centre", "n"),
    "Scatter": of("scatter", "r"),
    "Batch": of("batch", "d"),
    "Reservoir": of("sample", "d"),
    "Expansion": of("expansion", "n d k"),
    "Base": of("base", "n d"),
    "_Known": of("known rows", "d k"),
    "Trial": of("trial"),
    "RidgeMap": of("ridge map", "d k"),
    "Way": of("way", "d k"),
    "FixedPointWay": of("fixed point", "d k"),
    "FixedPointWay | GradientWay": of("search", "d k"),
    "RidgeWay | DistanceWay": of("way", "d k"),
    "Statistics": of("statistics", "m"),
}


_ALIASES = {"int | float": "float", "Structure": "str"}
_ALIASES |= {"floats": "FloatArray", "whole": "NDArray[np.intp]", "rows": "Any"}


def annotated(annotation: str, words: Sequence[str] = ()) -> Spec:
    """Return what a field may be, from its annotation and from what else is said of it.

    That is lengths of arrays ("n", "d+2", "*"), bounds (">=0", "<=1"), "inf" or "nan" where these may be, "falling",
    the texts there are ("none|sign"), or "free" for any text.
    """
    if annotation in _ANNOTATED:
        return _ANNOTATED[annotation]
    if annotation.endswith(" | None"):
        return maybe(annotated(annotation.removesuffix(" | None"), words))
    if annotation.startswith("tuple[") and annotation.endswith(", ...]"):
        return Several(annotated(annotation[len("tuple[") : -len(", ...]")], words))
    bounds = {word[:2]: float(word[2:]) for word in words if word[:2] in (">=", "<=")}
    least, most = bounds.get(">="), bounds.get("<=", math.inf)
    finite, nan, falling, free = (word in words for word in ("inf", "nan", "falling", "free"))
    finite = not (finite or nan)
    options = tuple(option for word in words if "|" in word for option in word.split("|"))
    dims = tuple(word for word in words if re.fullmatch(r"[a-z0-9*](\+\d)?", word))
    made: dict[str, Callable[[], Spec]] = {
        "int": lambda: Count(int(least or 0), " ".join(dims)),
        "float": lambda: Number(-math.inf if least is None else least, most, finite, nan),
        "str": lambda: Text(options, free),
        "FloatArray": lambda: floats(*dims, finite=finite, least=least, falling=falling),
        "NDArray[np.intp]": lambda: whole(*dims, least=least),
        "Any": lambda: Matrix(dims),
    }
    alias = _ALIASES.get(annotation, annotation)
    if alias not in made or not (dims or alias in ("int", "float", "str")):
        raise LookupError(f"{annotation} does not say what is stored: give its lengths, or what it may be.")
    return made[alias]()


# How an object is built again: by its constructor alone; by its constructor from parameters, and attributes of a fit;
# by attributes alone.
VALUE, ESTIMATOR, PLAIN = "value", "estimator", "plain"
# What every estimator of scikit-learn may have besides: names of columns, and the answer to set_output.
_OUTPUTS = Text(("default", "pandas", "polars"))
_COMMON: dict[str, Spec] = {"feature_names_in_": Texts(("d",)), "_sklearn_output_config": Named(_OUTPUTS)}


# Tags name classes in files for ever; classes move and are renamed. Tag, or the module of it -> where that is now.
_HOMES = {
    "kpca.approximation": "kpca.estimators.approximate",
    "kpca.features._parts": "kpca.features.parts",
    "kpca.features._projections": "kpca.features.frequencies",
    "kpca.features.identity": "kpca.features.base",
    "kpca.io.preparation": "kpca.data.preparation",
    "kpca.io.rows": "kpca.data.rows",
    "kpca.preimage.expansion": "kpca.preimage.target",
    "kpca.preimage.linear": "kpca.preimage.back",
    "kpca.preimage.ridge": "kpca.preimage.learned",
    "kpca.projection": "kpca.features.projection",
    "kpca.reservoir": "kpca.estimators.stream",
    "kpca.statistics": "kpca.detector.limits",
    "kpca.stream": "kpca.estimators.stream",
}


Specs = Mapping[str, Spec]
Check = Callable[[Any], None]


@dataclass(frozen=True)
class Row:
    """How objects of one class are stored and built again."""

    tag: str  # in files, for ever
    kind: str
    roles: frozenset[str]
    given: Mapping[str, Spec]  # fields of which more is known than their annotation; parameters; or attributes
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)  # what else is said of fields: see `annotated`
    fitted: Mapping[str, Spec] = field(default_factory=dict)  # attributes of a fitted estimator: all or none
    optional: Mapping[str, Spec] = field(default_factory=dict)
    fresh: Mapping[str, Callable[[], Any]] = field(default_factory=dict)  # not stored; how they begin after a load
    left_out: frozenset[str] = frozenset()  # not stored, and not there after a load
    check: Callable[[Any], None] | None = None  # of the whole object; raises Misfit

    @cached_property
    def _home(self) -> tuple[str, str]:
        module, _, name = _HOMES.get(self.tag, self.tag).partition(":")
        return _HOMES.get(module, module), name

    @property
    def name(self) -> str:
        """The name of the class."""
        return self._home[1]

    @cached_property
    def cls(self) -> type[Any]:
        """The class. Its place is written in this package; nothing is ever imported that a file names."""
        found: type[Any] = getattr(import_module(self._home[0]), self.name)
        return found

    @cached_property
    def fields(self) -> Mapping[str, Spec]:
        """Arguments of the constructor; of an estimator those that are checked; or attributes."""
        if self.kind != VALUE:
            return self.given
        stored = [each for each in fields(self.cls) if each.name not in self.left_out]
        return {
            each.name: self.given.get(each.name) or annotated(str(each.type), self.words.get(each.name, ()))
            for each in stored
        }

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """What the constructor takes."""
        return tuple(each.name for each in self._arguments)

    @cached_property
    def required(self) -> frozenset[str]:
        """What the constructor cannot do without."""
        return frozenset(each.name for each in self._arguments if each.default is each.empty)

    @cached_property
    def _arguments(self) -> tuple[Parameter, ...]:
        given = list(signature(self.cls.__init__).parameters.values())[1:]
        return tuple(each for each in given if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD))


def value(
    tag: str, role: str, words: str = "", given: Specs | None = None, *, left_out: str = "", check: Check | None = None
) -> Row:
    """A dataclass made of its fields, which are what their annotations and `words` say (see `annotated`)."""
    said = {name: more for name, *more in map(str.split, words.split(", ") if words else ())}
    roles = frozenset(role.split(", "))
    return Row(tag, VALUE, roles, given or {}, said, left_out=frozenset(left_out.split()), check=check)


def plain(tag: str, role: str, *, fresh: Mapping[str, Callable[[], Any]], **given: Spec) -> Row:
    """An object that is its attributes."""
    return Row(tag, PLAIN, frozenset(role.split(", ")), given, fresh=fresh)


def estimator(
    tag: str,
    role: str,
    fitted: str = "",
    given: Mapping[str, Spec] | None = None,
    *,
    optional: str = "",
    parameters: Mapping[str, Spec] | None = None,
    fresh: Mapping[str, Callable[[], Any]] | None = None,
    left_out: str = "",
    check: Callable[[Any], None] | None = None,
) -> Row:
    """An estimator of scikit-learn's kind: parameters, and attributes of a fit; other parameters can be anything.

    Attributes are written as "rank_ int >=1, mean_ floats? d" (see `annotated`; "?" is for None), or as a name alone
    where `given` says what they are.
    """

    def declared(text: str) -> dict[str, Spec]:
        entries = [entry.split() for entry in text.split(",") if entry.strip()]
        return {name: _attribute(*more) if more else (given or {})[name] for name, *more in entries}

    return Row(
        tag,
        ESTIMATOR,
        frozenset(role.split(", ")),
        parameters or {},
        fitted=declared(fitted),
        optional=_COMMON | declared(optional),
        fresh=fresh or {},
        left_out=frozenset(left_out.split()),
        check=check,
    )


def _attribute(kind: str, *words: str) -> Spec:
    return maybe(annotated(kind[:-1], words)) if kind.endswith("?") else annotated(kind, words)
