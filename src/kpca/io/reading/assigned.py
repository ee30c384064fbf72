"""Who is who among the columns of a table: numbers, categories, text, id and label."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kpca.errors import InputError
from kpca.storage.base import printable, quoted

_SHOWN = 8  # names in a message


@dataclass(frozen=True)
class Roles:
    """What a caller says of the columns; None where nothing is said."""

    columns: tuple[Any, ...] | None = None
    drop: tuple[Any, ...] | None = None
    label: Any = None
    id: Any = None
    text: Any = None
    optional: tuple[str, ...] = ()  # of "label" and "id": those that are none where there is no such column


@dataclass(frozen=True)
class Assigned:
    """The columns by name: those to analyse, and those beside them."""

    used: tuple[str, ...]  # to become numbers or categories, in the order of the file, or in the order asked for
    text: str | None
    id: str | None
    label: str | None


def roles_of(columns: Any, drop: Any, label: Any, id: Any, text: Any, *, optional: Sequence[str] = ()) -> Roles:
    """Return the roles a caller gave, in their final form."""
    return Roles(_listed("columns", columns), _listed("drop", drop), label, id, text, tuple(optional))


def _listed(option: str, given: Any) -> tuple[Any, ...] | None:
    if given is None:
        return None
    if isinstance(given, str | int):
        return (given,)
    try:
        return tuple(given)
    except TypeError as error:
        raise InputError(f"{option} must be a list of names of columns; got {quoted(given)}.") from error


def assign(
    where: str,
    names: Sequence[str],
    roles: Roles,
    *,
    named: bool = True,
    hidden: Sequence[str] = (),
    sides: Sequence[str] = (),
) -> Assigned:
    """Return which column has which role.

    `hidden` are columns that hold the names of the rows: the first is the id if no other is named, and they are
    analysed only where they are asked for. `sides` are arrays beside the table, which can be id or label only.
    """
    find = _Finder(where, names, named, sides)
    label, id, text = (
        None
        if given is None or (option in roles.optional and not find.has(given))
        else find(option, given, option != "text")
        for option, given in (("label", roles.label), ("id", roles.id), ("text", roles.text))
    )
    beside = [("label", label), ("id", id), ("text", text)]
    _check_distinct(where, [(option, name) for option, name in beside if name is not None])
    dropped = {find("drop", given) for given in roles.drop or ()}
    for option, name in beside:
        if name in dropped:
            raise _two_roles(where, name, "dropped", f"the {option}")
    if roles.columns is None:
        used = [name for name in names if name not in hidden and name not in dropped and name not in (label, id, text)]
    else:
        used = list(dict.fromkeys(find("columns", given) for given in roles.columns))
        for name in used:
            if name in dropped:
                raise _two_roles(where, name, "among the columns", "dropped")
            for option, other in beside:
                if name == other:
                    raise _two_roles(where, name, "among the columns", f"the {option}")
    if id is None and len(hidden) == 1 and hidden[0] not in used and hidden[0] not in dropped | {label, text}:
        id = hidden[0]
    _check_names(where, names, {*used, label, id, text} - {None})
    if not used and text is None:
        raise InputError(
            f"{where} must have a column of numbers, categories or text left to analyse; all of its {len(names)} are "
            "left out or have another role: name other columns, or drop fewer."
        )
    return Assigned(tuple(used), text, id, label)


class _Finder:
    """Finds the column that a caller means."""

    def __init__(self, where: str, names: Sequence[str], named: bool, sides: Sequence[str]) -> None:
        self._where, self._list, self._names, self._named = where, names, set(names), named
        self._sides = set(sides)

    def has(self, given: Any) -> bool:
        """Whether there is a column, or an array beside the table, of this name."""
        return str(given) in self._names or str(given) in self._sides

    def __call__(self, option: str, given: Any, beside: bool = False) -> str:
        name = str(given)
        if name in self._names or (beside and name in self._sides):
            return name
        if not self._named and name.isdecimal() and int(name) < len(self._list):
            return self._list[int(name)]
        known = [*self._list, *(sorted(self._sides) if beside else ())]
        near = difflib.get_close_matches(name, known[:10_000], n=1, cutoff=0.6)
        same = [other for other in known if other.lower() == name.strip().lower()]
        hint = f"did you mean {quoted((same or near)[0])}?" if same or near else f"it has {_some(known)}."
        raise InputError(f"{self._where} must have the column that {option} names; it has no {quoted(name)}: {hint}")


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(quoted(name, 30) for name in names[:_SHOWN])
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _two_roles(where: str, name: str | None, one: str, other: str) -> InputError:
    return InputError(
        f"A column of {where} must have one role; {quoted(name)} is {one} and {other}: take it out of one of the two."
    )


def _check_distinct(where: str, beside: Sequence[tuple[str, str]]) -> None:
    for place, (option, name) in enumerate(beside):
        for other, same in beside[:place]:
            if name == same:
                raise _two_roles(where, name, f"the {other}", f"the {option}")


def _check_names(where: str, names: Sequence[str], wanted: set[Any]) -> None:
    """Refuse a name in use that several columns have."""
    if len(set(names)) == len(names):
        return
    twice = [name for name, count in Counter(names).items() if count > 1 and name in wanted]
    if twice:
        places = [str(place + 1) for place, name in enumerate(names) if name == twice[0]]
        raise InputError(
            f"The columns of {where} must have different names; {quoted(twice[0])} is the name of columns "
            f"{printable(', '.join(places))}: rename or drop them, or say header=False if the first line is no header."
        )
