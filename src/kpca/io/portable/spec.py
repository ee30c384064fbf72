"""What a class stores, one row of the registry each, and what each stored value may be: type, shape, range.

Of a dataclass, annotations say most; a row adds what they leave open. One check serves writing and reading.

Lengths are named by letters: within an object each letter stands for one number, and an object passes its letters on to
the one that it is part of, so that "as many coefficients as rows" is said once, in the declaration of the class.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from importlib import import_module
from inspect import Parameter, signature
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse

# Entries that are looked at at once, so that a check needs little memory.
_AT_ONCE = 2**20
_LONGEST_TEXT = 2**16


class Misfit(Exception):
    """A value is not what its place is for; the message is part of a sentence."""


@dataclass(frozen=True)
class Built:
    """An object that others may be made of."""

    item: Any
    roles: frozenset[str]
    lengths: Mapping[str, int]  # that its letters stand for
    depth: int
    size: int  # objects in it, shared ones counted each time


@dataclass
class Scope:
    """What is known while the fields of one object are checked."""

    built: Mapping[int, Built] = field(default_factory=dict)  # by the id of the object
    lengths: dict[str, int] = field(default_factory=dict)

    def meet(self, letter: str, length: int) -> None:
        """Note that a letter stands for a length, or refuse another one than it stands for."""
        if self.lengths.setdefault(letter, length) != length:
            raise Misfit(f"has {length} where {self.lengths[letter]} belong")

    def meet_shape(self, shape: tuple[int, ...], dims: tuple[str, ...]) -> None:
        """Note or refuse the lengths of an array."""
        if len(shape) != len(dims):
            raise Misfit(f"has {len(shape)} dimensions where {len(dims)} belong")
        for length, dim in zip(shape, dims, strict=True):
            letter, _, more = dim.partition("+")
            if letter.isdigit():
                if length != int(letter):
                    raise Misfit(f"has {length} where {letter} belong")
            elif letter != "*":
                self.meet(letter, length - int(more or 0))


# -- Specs, from words ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    """What a value may be, as `spec_of` reads it."""

    kind: str
    words: tuple[str, ...] = ()
    parts: tuple[Spec, ...] = ()

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """Lengths: letters, numbers, or "*" for any."""
        return tuple(word for word in self.words if re.fullmatch(r"[a-z0-9*](\+\d)?", word))

    @cached_property
    def options(self) -> tuple[str, ...]:
        """The texts there are."""
        return tuple(option for word in self.words if "|" in word for option in word.split("|") if option)

    @cached_property
    def finite(self) -> bool:
        """Whether there is neither NaN nor infinity."""
        return not {"inf", "nan"} & {*self.words}

    def bound(self, mark: str) -> float | None:
        """Return the number after ">=" or "<="."""
        return next((float(word[2:]) for word in self.words if word.startswith(mark)), None)

    def check(self, value: Any, scope: Scope) -> None:
        """Raise Misfit unless the value fits."""
        _CHECKS[self.kind](self, value, scope)


# What words stand for, and annotations of dataclasses.
_MEANINGS = {
    "real": "float inf",
    "name": "str free",
    "switch": "bool or real",
    "values": "numbers * inf or tuple of real or list of real",
    "jobs": "none or int >=1 or float >=-1024 <=-1",
    "side": "floats d inf",
    "picture": "int >=1 and int >=1",
    "shape": "int and int",
    "limit": "none or int",
    "stage": "<estimator> or str passthrough| or none",
    "step": "name and stage",
    "category": "texts * missing or numbers * inf",
    "places": "none or whole * >=0",
    "np.dtype[Any]": "dtype",
    "int | float": "float",
    # One number, or one per column. Kernels check the range of their parameters themselves.
    "float | tuple[float, ...]": "float or tuple d of float",
    "FloatArray": "floats",
    "NDArray[np.intp]": "whole",
    "Any": "rows",
    "Box": "side and side",
    "Kernel": "<kernel> d",
    "kernels.Kernel": "<kernel> d",
    "RadialKernel": "<radial_kernel> d",
    "FeatureMap": "<feature_map> r d",
    "FittedMap": "<fitted_feature_map> r d",
    "Part": "<part_of_a_feature_map>",
    "Projection": "<random_projection>",
    "Centre": "<centre> n",
    "Scatter": "<scatter> r",
    "Batch": "<batch> d",
    "Reservoir": "<sample> d",
    "Expansion": "<expansion> n d k",
    "Base": "<base> n d",
    "_Known": "<known_rows> d k",
    "Trial": "<trial>",
    "RidgeMap": "<ridge_map> d k",
    "Way": "<way> d k",
    "FixedPointWay": "<fixed_point> d k",
    "FixedPointWay | GradientWay": "<search> d k",
    "RidgeWay | DistanceWay": "<way> d k",
    "Statistics": "<statistics> m",
}


@cache
def spec_of(text: str) -> Spec:
    """Return what a value may be, from words such as "none or floats n d >=0".

    The first is its kind: a key of `_CHECKS` or `_MEANINGS`, or "<role>" for an object. Then come lengths of arrays
    ("n", "d+2", "*"), letters that an object has in common with the whole ("d", or "c=d" where the whole has another),
    bounds (">=0", "<=1"), "inf" or "nan" where these may be, "falling", the texts there are ("none|sign"), "free" for
    any text, "missing" where texts may be. "a or b" is one of these, "a and b" a tuple of both, "list d of a" a list.
    """
    for kind in ("or", "and"):
        if len(parts := text.split(f" {kind} ")) > 1:
            return Spec(kind, parts=tuple(map(spec_of, parts)))
    outer, _, item = text.partition(" of ")
    kind, *words = outer.split()
    if kind in _MEANINGS:
        return spec_of(" ".join([_MEANINGS[kind], *words]))
    if kind.startswith("<"):
        words, kind = [kind[1:-1].replace("_", " "), *words], "<>"
    found = Spec(kind, tuple(words), (spec_of(item),) if item else ())
    if kind not in _CHECKS or (kind in ("rows", *_NUMBERS) and not found.dims):
        raise LookupError(f"{text} does not say what is stored: give its lengths, or what it may be.")
    return found


def annotated(annotation: str, words: str = "") -> Spec:
    """Return what a field may be, from its annotation and from what else is said of it, which may be all there is."""
    first = words.partition(" ")[0]
    if first in _CHECKS or first in _MEANINGS or first.startswith("<"):
        return spec_of(words)
    before, kind = "", annotation
    if kind.endswith(" | None"):
        before, kind = "none or ", kind.removesuffix(" | None")
    if kind not in _MEANINGS and kind.startswith("tuple[") and kind.endswith(", ...]"):
        before, kind = f"{before}tuple of ", kind[len("tuple[") : -len(", ...]")]
    return spec_of(f"{before}{_MEANINGS.get(kind, kind)} {words}".strip())


# -- Checks of each kind ----------------------------------------------------------------------------------------------

_NUMBERS = {"floats": ("f4", "f8"), "whole": ("i4", "i8"), "numbers": ("f4", "f8", "i4", "i8", "b1")}


def _array(spec: Spec, value: Any, scope: Scope) -> None:
    if not isinstance(value, np.ndarray):
        raise Misfit("must be an array")
    if value.dtype.str[1:] not in _NUMBERS[spec.kind]:
        raise Misfit(f"is an array of {value.dtype}")
    scope.meet_shape(value.shape, spec.dims)
    least, finite = spec.bound(">="), spec.finite and spec.kind != "whole"
    flat = value.reshape(-1, order="A") if value.flags.forc else value.ravel()
    for start in range(0, flat.size, _AT_ONCE) if finite or least is not None else ():
        piece = flat[start : start + _AT_ONCE]
        if finite and not np.isfinite(piece).all():
            raise Misfit("has NaN or infinity")
        if least is not None and bool((piece < least).any()):
            raise Misfit(f"has numbers below {least:g}")
    if "falling" in spec.words and bool((np.diff(value) > 0).any()):
        raise Misfit("must not grow")


def _rows(spec: Spec, value: Any, scope: Scope) -> None:
    """Finite numbers, dense or CSR."""
    if sparse.issparse(value):
        spec_of("floats *").check(value.data, scope)
        scope.meet_shape(value.shape, spec.dims)
    else:
        Spec("floats", spec.words).check(value, scope)


def _texts(spec: Spec, value: Any, scope: Scope) -> None:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "OU":
        raise Misfit("must be an array of texts")
    scope.meet_shape(value.shape, spec.dims)
    if "missing" not in spec.words and not all(isinstance(item, str) for item in value):
        raise Misfit("has entries that are no texts")


def _float(spec: Spec, value: Any, scope: Scope) -> None:
    if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
        raise Misfit("must be a number")
    number, least, most = float(value), spec.bound(">="), spec.bound("<=")
    if math.isnan(number) and "nan" in spec.words:
        return
    above = (-math.inf if least is None else least) <= number
    if not (above and number <= (math.inf if most is None else most)) or (spec.finite and not math.isfinite(number)):
        raise Misfit(f"cannot be {number!r}")


def _int(spec: Spec, value: Any, scope: Scope) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool | np.bool_):
        raise Misfit("must be a whole number")
    if value < (spec.bound(">=") or 0):
        raise Misfit(f"cannot be {int(value)}")
    for letter in spec.dims:
        scope.meet(letter, int(value))


def _str(spec: Spec, value: Any, scope: Scope) -> None:
    """A text for people, or one of a few names."""
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise Misfit("must be a text")
    if spec.options and value not in spec.options:
        raise Misfit(f"must be one of {', '.join(spec.options)}")
    if "free" not in spec.words and not value.isprintable():
        raise Misfit("has characters that cannot be printed")


def _bool(spec: Spec, value: Any, scope: Scope) -> None:
    if not isinstance(value, bool | np.bool_):
        raise Misfit("must be True or False")


def _dtype(spec: Spec, value: Any, scope: Scope) -> None:
    if not isinstance(value, np.dtype) or ("any" not in spec.words and value.str[1:] not in ("f4", "f8")):
        raise Misfit("must be the dtype of float32 or float64")


def _none(spec: Spec, value: Any, scope: Scope) -> None:
    if value is not None:
        raise Misfit("must be empty")


def _object(spec: Spec, value: Any, scope: Scope) -> None:
    role, *letters = spec.words
    built = scope.built.get(id(value))
    if built is None or role not in built.roles:
        raise Misfit(f"must be a {role}")
    for letter in letters:
        whole, _, part = letter.partition("=")
        if (part or whole) in built.lengths:
            scope.meet(whole, built.lengths[part or whole])


def _sequence(spec: Spec, value: Any, scope: Scope) -> None:
    least = int(spec.bound(">=") or 0)
    if type(value).__name__ != spec.kind or len(value) < least:
        raise Misfit(f"must be a {spec.kind} of at least {least}")
    for letter in spec.dims:
        scope.meet(letter, len(value))
    for item in value:
        spec.parts[0].check(item, scope)


def _dict(spec: Spec, value: Any, scope: Scope) -> None:
    if type(value) is not dict or not all(isinstance(key, str) for key in value):
        raise Misfit("must be a dictionary")
    if spec.options and set(value) != set(spec.options):
        raise Misfit(f"must have the keys {', '.join(spec.options)}")
    for item in value.values():
        spec.parts[0].check(item, scope)


def _and(spec: Spec, value: Any, scope: Scope) -> None:
    if type(value) is not tuple or len(value) != len(spec.parts):
        raise Misfit(f"must be a tuple of {len(spec.parts)}")
    for item, part in zip(value, spec.parts, strict=True):
        part.check(item, scope)


def _or(spec: Spec, value: Any, scope: Scope) -> None:
    before, reason = scope.lengths, Misfit("is nothing that belongs here")
    for choice in spec.parts:
        scope.lengths = dict(before)
        try:
            return choice.check(value, scope)
        except Misfit as misfit:
            reason = misfit
    scope.lengths = before
    raise reason


_CHECKS: dict[str, Callable[[Spec, Any, Scope], None]] = {
    **dict.fromkeys(_NUMBERS, _array),
    **dict.fromkeys(("tuple", "list"), _sequence),
    "rows": _rows,
    "texts": _texts,
    "float": _float,
    "int": _int,
    "str": _str,
    "bool": _bool,
    "dtype": _dtype,
    "none": _none,
    "<>": _object,
    "dict": _dict,
    "and": _and,
    "or": _or,
    "any": lambda spec, value, scope: None,  # parameters, which are looked at where they are used
}

# -- Rows of the registry ---------------------------------------------------------------------------------------------

# How an object is built again: by its constructor alone; by its constructor from parameters, and attributes of a fit;
# by attributes alone.
VALUE, ESTIMATOR, PLAIN = "value", "estimator", "plain"
# What every estimator of scikit-learn may have besides: names of columns, and the answer to set_output.
_COMMON = "feature_names_in_ texts d, _sklearn_output_config dict of str default|pandas|polars, "
# Tags name classes in files for ever; classes move and are renamed. Module of a tag -> where that is now.
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


@dataclass(frozen=True)
class Row:
    """How objects of one class are stored and built again, in entries such as "rank_ int >=1, mean_ floats d".

    Of a dataclass there are entries only for fields of which there is more to say than their annotation.
    """

    tag: str  # in files, for ever
    role: str  # what objects can be used as; commas between several
    said: str = ""  # of fields; of attributes; of the attributes of a fit, of which an estimator has all or none
    kind: str = VALUE
    optional: str = ""  # other attributes of an estimator
    parameters: str = ""  # those that are checked; others can be anything
    fresh: Mapping[str, Callable[[], Any]] = field(default_factory=dict)  # not stored; how they begin after a load
    left_out: str = ""  # not stored, and not there after a load
    check: Callable[[Any], None] | None = None  # of the whole object; raises Misfit

    @cached_property
    def name(self) -> str:
        """The name of the class."""
        return self.tag.partition(":")[2]

    @cached_property
    def roles(self) -> frozenset[str]:
        """What objects can be used as."""
        return frozenset(self.role.split(", "))

    @cached_property
    def cls(self) -> type[Any]:
        """The class. Its place is written in this package; nothing is ever imported that a file names."""
        module = self.tag.partition(":")[0]
        found: type[Any] = getattr(import_module(_HOMES.get(module, module)), self.name)
        return found

    @cached_property
    def arguments(self) -> Mapping[str, bool]:
        """What the constructor takes, and whether it cannot do without."""
        if self.kind != ESTIMATOR:
            return dict.fromkeys(self.stored, True) if self.kind == VALUE else {}
        given = list(signature(self.cls.__init__).parameters.values())[1:]
        varying = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
        return {each.name: each.default is each.empty for each in given if each.kind not in varying}

    @cached_property
    def fitted(self) -> Mapping[str, Spec]:
        """Attributes of a fitted estimator."""
        return _specs(self.said) if self.kind == ESTIMATOR else {}

    @cached_property
    def stored(self) -> Mapping[str, Spec]:
        """All that is stored, in this order."""
        if self.kind == PLAIN:
            return _specs(self.said)
        if self.kind == VALUE:
            said, left_out = _entries(self.said), self.left_out.split()
            stored = [each for each in fields(self.cls) if each.name not in left_out]
            return {each.name: annotated(str(each.type), said.get(each.name, "")) for each in stored}
        checked = _specs(self.parameters)
        parameters = {name: checked.get(name) or spec_of("any") for name in self.arguments}
        return {**parameters, **self.fitted, **_specs(_COMMON + self.optional)}

    def is_whole(self, given: Iterable[str]) -> bool:
        """Return False for an estimator that is not fitted."""
        return not self.fitted or not self.fitted.keys().isdisjoint(given)


def _entries(text: str) -> dict[str, str]:
    pairs = (entry.strip().partition(" ") for entry in text.split(",") if entry.strip())
    return {name: more for name, _, more in pairs}


def _specs(text: str) -> dict[str, Spec]:
    return {name: spec_of(more) for name, more in _entries(text).items()}
