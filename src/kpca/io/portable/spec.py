"""What a stored value may be: its type, its shape, its range. One check serves writing and reading.

Lengths are named by letters: within an object each letter stands for one number, and an object passes its letters on to
the one that it is part of, so that "as many coefficients as rows" is said once, in the declaration of the class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np
from scipy import sparse

# Entries that are looked at at once, so that a check needs little memory.
_AT_ONCE = 2**20
_LONGEST_TEXT = 2**16


class Misfit(Exception):
    """A value is not what its place is for; the message is part of a sentence."""


@dataclass
class Scope:
    """What is known while the fields of one object are checked."""

    letters_of: Callable[[Any], Mapping[str, int]]  # of an object that is part of this one
    roles_of: Callable[[Any], frozenset[str]]
    lengths: dict[str, int] = field(default_factory=dict)

    def meet(self, letter: str, length: int) -> None:
        """Note that a letter stands for a length, or refuse another one than it stands for."""
        if self.lengths.setdefault(letter, length) != length:
            raise Misfit(f"has {length} where {self.lengths[letter]} belong")


class Spec(Protocol):
    """What a value may be."""

    def check(self, value: Any, scope: Scope) -> None:
        """Raise Misfit unless the value fits."""


def _meet_shape(shape: tuple[int, ...], dims: tuple[str, ...], scope: Scope) -> None:
    if len(shape) != len(dims):
        raise Misfit(f"has {len(shape)} dimensions where {len(dims)} belong")
    for length, dim in zip(shape, dims, strict=True):
        letter, _, more = dim.partition("+")
        if letter.isdigit():
            if length != int(letter):
                raise Misfit(f"has {length} where {letter} belong")
        elif letter != "*":
            scope.meet(letter, length - int(more or 0))


def _flat_pieces(array: Any) -> Iterator[Any]:
    flat = array.reshape(-1, order="A") if array.flags.c_contiguous or array.flags.f_contiguous else array.ravel()
    for start in range(0, flat.size, _AT_ONCE):
        yield flat[start : start + _AT_ONCE]


@dataclass(frozen=True)
class Array:
    """Numbers of some kind ("f", "i" or "b") and shape; finite unless said otherwise."""

    kind: str
    dims: tuple[str, ...]
    finite: bool = True
    least: float | None = None
    falling: bool = False  # in one dimension, none larger than the one before

    def check(self, value: Any, scope: Scope) -> None:
        if not isinstance(value, np.ndarray):
            raise Misfit("must be an array")
        allowed = {"f": ("f4", "f8"), "i": ("i4", "i8"), "b": ("b1",), "n": ("f4", "f8", "i4", "i8", "b1")}[self.kind]
        if value.dtype.str[1:] not in allowed:
            raise Misfit(f"is an array of {value.dtype}")
        _meet_shape(value.shape, self.dims, scope)
        for piece in _flat_pieces(value) if self.finite or self.least is not None else ():
            if self.finite and not np.isfinite(piece).all():
                raise Misfit("has NaN or infinity")
            if self.least is not None and bool((piece < self.least).any()):
                raise Misfit(f"has numbers below {self.least:g}")
        if self.falling and bool((np.diff(value) > 0).any()):
            raise Misfit("must not grow")


@dataclass(frozen=True)
class Matrix:
    """Finite numbers, dense or CSR."""

    dims: tuple[str, ...]

    def check(self, value: Any, scope: Scope) -> None:
        if sparse.issparse(value):
            Array("f", ("*",)).check(value.data, scope)
            _meet_shape(value.shape, self.dims, scope)
        else:
            Array("f", self.dims).check(value, scope)


@dataclass(frozen=True)
class Texts:
    """An array of texts; None or NaN where one is missing, if that may be."""

    dims: tuple[str, ...] = ("*",)
    missing: bool = False

    def check(self, value: Any, scope: Scope) -> None:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "OU":
            raise Misfit("must be an array of texts")
        _meet_shape(value.shape, self.dims, scope)
        if not self.missing and not all(isinstance(item, str) for item in value):
            raise Misfit("has entries that are no texts")


@dataclass(frozen=True)
class Number:
    """A real number."""

    least: float = -math.inf
    most: float = math.inf
    finite: bool = True
    nan: bool = False

    def check(self, value: Any, scope: Scope) -> None:
        if not isinstance(value, Real) or isinstance(value, bool | np.bool_):
            raise Misfit("must be a number")
        number = float(value)
        if math.isnan(number) and self.nan:
            return
        if not self.least <= number <= self.most or (self.finite and not math.isfinite(number)):
            raise Misfit(f"cannot be {number!r}")


@dataclass(frozen=True)
class Count:
    """A whole number; the length that letters stand for, if some are given."""

    least: int = 0
    letters: str = ""

    def check(self, value: Any, scope: Scope) -> None:
        if not isinstance(value, Integral) or isinstance(value, bool | np.bool_):
            raise Misfit("must be a whole number")
        if value < self.least:
            raise Misfit(f"cannot be {int(value)}")
        for letter in self.letters.split():
            scope.meet(letter, int(value))


@dataclass(frozen=True)
class Text:
    """A text for people, or one of a few names."""

    options: tuple[str, ...] = ()
    free: bool = False  # names that others have given may have any characters

    def check(self, value: Any, scope: Scope) -> None:
        if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
            raise Misfit("must be a text")
        if self.options and value not in self.options:
            raise Misfit(f"must be one of {', '.join(self.options)}")
        if not (self.free or value.isprintable()):
            raise Misfit("has characters that cannot be printed")


@dataclass(frozen=True)
class Flag:
    """True or False."""

    def check(self, value: Any, scope: Scope) -> None:
        if not isinstance(value, bool | np.bool_):
            raise Misfit("must be True or False")


@dataclass(frozen=True)
class Dtype:
    """The type of the numbers of an array: float32 or float64, and others if that may be."""

    any: bool = False

    def check(self, value: Any, scope: Scope) -> None:
        if not isinstance(value, np.dtype) or (not self.any and value.str[1:] not in ("f4", "f8")):
            raise Misfit("must be the dtype of float32 or float64")


@dataclass(frozen=True)
class Of:
    """An object of some role; its letters are those of the whole, under the names given."""

    role: str
    letters: tuple[tuple[str, str], ...] = ()  # of the whole, of the part

    def check(self, value: Any, scope: Scope) -> None:
        if self.role not in scope.roles_of(value):
            raise Misfit(f"must be a {self.role}")
        known = scope.letters_of(value)
        for whole, part in self.letters:
            if part in known:
                scope.meet(whole, known[part])


@dataclass(frozen=True)
class Several:
    """A tuple or list of values of one kind."""

    item: Spec
    kind: type[tuple[Any, ...]] | type[list[Any]] = tuple
    least: int = 0
    letter: str | None = None

    def check(self, value: Any, scope: Scope) -> None:
        if type(value) is not self.kind or len(value) < self.least:
            raise Misfit(f"must be a {self.kind.__name__} of at least {self.least}")
        if self.letter is not None:
            scope.meet(self.letter, len(value))
        for item in value:
            self.item.check(item, scope)


@dataclass(frozen=True)
class Fixed:
    """A tuple of fixed length, each value of its own kind."""

    items: tuple[Spec, ...]

    def check(self, value: Any, scope: Scope) -> None:
        if type(value) is not tuple or len(value) != len(self.items):
            raise Misfit(f"must be a tuple of {len(self.items)}")
        for item, spec in zip(value, self.items, strict=True):
            spec.check(item, scope)


@dataclass(frozen=True)
class Named:
    """A dictionary of values of one kind, by texts."""

    item: Spec
    keys: tuple[str, ...] = ()  # all there are; any if none are given

    def check(self, value: Any, scope: Scope) -> None:
        if type(value) is not dict or not all(isinstance(key, str) for key in value):
            raise Misfit("must be a dictionary")
        if self.keys and set(value) != set(self.keys):
            raise Misfit(f"must have the keys {', '.join(self.keys)}")
        for item in value.values():
            self.item.check(item, scope)


@dataclass(frozen=True)
class Either:
    """A value of one kind or another."""

    choices: tuple[Spec, ...]

    def check(self, value: Any, scope: Scope) -> None:
        before, reason = dict(scope.lengths), Misfit("is nothing that belongs here")
        for choice in self.choices:
            scope.lengths = dict(before)
            try:
                return choice.check(value, scope)
            except Misfit as misfit:
                reason = misfit
        scope.lengths = before
        raise reason


@dataclass(frozen=True)
class Nothing:
    """None."""

    def check(self, value: Any, scope: Scope) -> None:
        if value is not None:
            raise Misfit("must be empty")


@dataclass(frozen=True)
class Anything:
    """Whatever can be written at all: parameters, which are looked at where they are used."""

    def check(self, value: Any, scope: Scope) -> None:
        return None


def floats(*dims: str, finite: bool = True, least: float | None = None, falling: bool = False) -> Array:
    """float32 or float64."""
    return Array("f", dims, finite, least, falling)


def whole(*dims: str, least: float | None = None) -> Array:
    """Whole numbers."""
    return Array("i", dims, False, least)


def maybe(spec: Spec) -> Either:
    """This, or None."""
    return Either((Nothing(), spec))


def of(role: str, letters: str = "", **renamed: str) -> Of:
    """An object of a role that has these letters in common with the whole; renamed ones as whole=part."""
    return Of(role, (*((letter, letter) for letter in letters.split()), *renamed.items()))
