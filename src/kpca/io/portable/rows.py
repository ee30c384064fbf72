"""What a class declares to be stored: one row of the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from inspect import Parameter, signature
from typing import Any

from kpca.io.portable.spec import Named, Spec, Text, Texts

# How an object is built again: by its constructor alone; by its constructor from parameters, and attributes of a fit;
# by attributes alone.
VALUE, ESTIMATOR, PLAIN = "value", "estimator", "plain"
# What every estimator of scikit-learn may have besides: names of columns, and the answer to set_output.
_OUTPUTS = Text(("default", "pandas", "polars"))
COMMON: Mapping[str, Spec] = {"feature_names_in_": Texts(("d",)), "_sklearn_output_config": Named(_OUTPUTS)}


@dataclass(frozen=True)
class Row:
    """How objects of one class are stored and built again."""

    tag: str  # in files, for ever
    kind: str
    roles: frozenset[str]
    fields: Mapping[str, Spec]  # arguments of the constructor; of an estimator those that are checked; or attributes
    fitted: Mapping[str, Spec] = field(default_factory=dict)  # attributes of a fitted estimator: all or none
    optional: Mapping[str, Spec] = field(default_factory=dict)
    fresh: Mapping[str, Callable[[], Any]] = field(default_factory=dict)  # not stored; how they begin after a load
    left_out: frozenset[str] = frozenset()  # not stored, and not there after a load
    check: Callable[[Any], None] | None = None  # of the whole object; raises Misfit
    home: str = ""  # module:class, where it is not the tag

    @cached_property
    def cls(self) -> type[Any]:
        """The class. Its place is written in this package; nothing is ever imported that a file names."""
        module, _, name = (self.home or self.tag).partition(":")
        found: type[Any] = getattr(import_module(module), name)
        return found

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

    @property
    def name(self) -> str:
        """The name of the class."""
        return (self.home or self.tag).partition(":")[2]


def value(tag: str, role: str = "", *, check: Callable[[Any], None] | None = None, **fields: Spec) -> Row:
    """An object that its constructor makes of its fields: a dataclass. Fields that are not named keep their default."""
    return Row(tag, VALUE, frozenset(role.split(", ")), fields, check=check)


def plain(tag: str, role: str, *, fresh: Mapping[str, Callable[[], Any]] | None = None, **fields: Spec) -> Row:
    """An object that is its attributes."""
    return Row(tag, PLAIN, frozenset(role.split(", ")), fields, fresh=fresh or {})


def estimator(
    tag: str,
    role: str,
    fitted: Mapping[str, Spec] | None = None,
    optional: Mapping[str, Spec] | None = None,
    *,
    parameters: Mapping[str, Spec] | None = None,
    fresh: Mapping[str, Callable[[], Any]] | None = None,
    left_out: str = "",
    check: Callable[[Any], None] | None = None,
) -> Row:
    """An estimator of scikit-learn's kind: parameters, and attributes of a fit; other parameters can be anything."""
    return Row(
        tag,
        ESTIMATOR,
        frozenset(role.split(", ")),
        parameters or {},
        fitted or {},
        {**COMMON, **(optional or {})},
        fresh or {},
        frozenset(left_out.split()),
        check,
    )
