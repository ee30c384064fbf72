"""The errors a user can cause or meet, one sentence each: what must hold, what arrived, what to do.

A message that names a parameter names it as a `Setting`, so that each door can write it in its own words: the package
says impute='median' where the command line says --impute median.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setting:
    """A parameter in a message: by its name, or with a value to give it."""

    name: str
    value: Any = ...

    def __str__(self) -> str:
        return self.name if self.value is ... else f"{self.name}={self.value!r}"


@dataclass(frozen=True)
class InPython:
    """Words that only Python needs, such as None, and what other doors say instead."""

    words: str
    otherwise: str | Setting = ""

    def __str__(self) -> str:
        return self.words


Part = str | Setting | InPython
Words = Part | tuple[Part, ...]


class _Sentence(Exception):
    """A message in parts, so that each door can word the settings in it."""

    def __init__(
        self, message: Words, *, param: str | None = None, value: Any = ..., remedy: Words | None = None
    ) -> None:
        parts: list[Part] = [] if param is None else [Setting(param), " "]
        parts += _parts(message)
        if value is not ...:
            parts.append(f"; got {value!r}")
        if remedy is not None:
            parts += [": ", *_parts(remedy)]
        if not (isinstance(parts[-1], str) and parts[-1].endswith((".", "?", "!"))):
            parts.append(".")
        self.param, self._parts = param, tuple(parts)
        super().__init__("".join(map(str, parts)))

    def told(self, word: Callable[[Setting], str]) -> str:
        """Return the message in the words of a door other than Python."""
        parts = (part.otherwise if isinstance(part, InPython) else part for part in self._parts)
        return "".join(word(part) if isinstance(part, Setting) else part for part in parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.param, self._parts)


class InputError(_Sentence, ValueError):
    """Data or a parameter cannot be used; the message says why and what to do instead.

    Parameters
    ----------
    message : the sentence, or what must hold of `param`; a tuple may hold settings between its words.
    param : the parameter that is wrong; the sentence then begins with its name.
    value : what arrived; the sentence goes on with "; got ...".
    remedy : what to do; the sentence ends with ": ...".

    Examples
    --------
    >>> str(InputError("must be a whole number from 1", param="rank", value=0))
    'rank must be a whole number from 1; got 0.'
    >>> error = InputError("Column 'age' has missing values", remedy=("take ", Setting("impute", "median")))
    >>> str(error), error.told(lambda setting: f"--{setting.name} {setting.value}")
    ("Column 'age' has missing values: take impute='median'.", "Column 'age' has missing values: take --impute median.")
    """


class InputWarning(_Sentence, UserWarning):
    """Data or a parameter can be used, but perhaps not as the user thinks; worded like `InputError`."""


def _parts(words: Words) -> tuple[Part, ...]:
    return words if isinstance(words, tuple) else (words,)


def _rebuilt(kind: type[_Sentence], param: str | None, parts: tuple[Part, ...]) -> _Sentence:
    sentence = kind(parts)
    sentence.param = param
    return sentence


class Cancelled(RuntimeError):
    """A progress callback asked the fit to stop; nothing was stored on the estimator."""
