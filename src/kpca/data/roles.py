"""Who is who among the columns of a table: numbers, categories, text, id and label."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kpca._base.errors import InputError, Setting
from kpca.data.rows import (
    Layout,
    Rows,
    Table,
    Texts,
    default_names,
    hint,
    is_missing,
    listed,
    place,
    printable,
    quoted,
    rows_of,
)
from kpca.data.sources import default_rows


@dataclass(frozen=True)
class Roles:
    """What a caller says of the columns; None where nothing is said."""

    columns: tuple[Any, ...] | None = None
    drop: tuple[Any, ...] | None = None
    label: Any = None
    id: Any = None
    text: Any = None
    optional: tuple[str, ...] = ()  # of "label" and "id": those that are none where there is no such column

    @property
    def beside(self) -> tuple[tuple[str, Any], ...]:
        """What is said of label and id."""
        return ("label", self.label), ("id", self.id)


@dataclass(frozen=True)
class Assigned:
    """The columns by name: those to analyse, and those beside them."""

    used: tuple[str, ...]  # to become numbers or categories, in the order of the file, or in the order asked for
    text: str | None
    id: str | None
    label: str | None


def roles_of(columns: Any, drop: Any, label: Any, id: Any, text: Any, *, optional: Sequence[str] = ()) -> Roles:
    """Return the roles a caller gave, in their final form."""
    return Roles(_as_tuple("columns", columns), _as_tuple("drop", drop), label, id, text, tuple(optional))


def _as_tuple(option: str, given: Any) -> tuple[Any, ...] | None:
    if given is None:
        return None
    if isinstance(given, str | int):
        return (given,)
    try:
        return tuple(given)
    except TypeError as error:
        raise InputError(f"must be a list of names of columns; got {quoted(given)}", param=option) from error


def assign(
    where: str,
    names: Sequence[str],
    roles: Roles,
    *,
    named: bool,
    hidden: Sequence[str] = (),
    sides: Sequence[str] = (),
    only_sides: bool = False,
) -> Assigned:
    """Return each column's role. `hidden` name the rows, the first being the default id; `sides` can be id or label.

    With `only_sides` nothing else can be id or label: cells are called by their annotations, not by genes.
    """
    find = _Finder(where, names, named, sides, only_sides)
    label, id, text = (
        None
        if given is None or (option in roles.optional and not find.has(given))
        else find(option, given, option != "text")
        for option, given in (("label", roles.label), ("id", roles.id), ("text", roles.text))
    )
    beside = [("label", label), ("id", id), ("text", text)]
    for (one, first), (another, second) in itertools.combinations(beside, 2):
        if first is not None and first == second:
            raise _two_roles(where, first, f"the {one}", f"the {another}")
    dropped = {find("drop", given) for given in roles.drop or ()}
    for option, other in beside:
        if other in dropped:
            raise _two_roles(where, other, "dropped", f"the {option}")
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
        raise InputError(f"{where} must have a column left to analyse; all {len(names)} are left out: drop fewer.")
    return Assigned(tuple(used), text, id, label)


class _Finder:
    """Finds the column that a caller means."""

    def __init__(self, where: str, names: Sequence[str], named: bool, sides: Sequence[str], only_sides: bool) -> None:
        self._where, self._list, self._names, self._named = where, names, set(names), named
        self._sides, self._only_sides = set(sides), only_sides

    def has(self, given: Any) -> bool:
        """Whether there is a column, or an array beside the table, of this name."""
        return str(given) in self._names or str(given) in self._sides

    def __call__(self, option: str, given: Any, beside: bool = False) -> str:
        name, among_columns = str(given), not (beside and self._only_sides)
        if (among_columns and name in self._names) or (beside and name in self._sides):
            return name
        if among_columns and not self._named and name.isdecimal() and int(name) < len(self._list):
            return self._list[int(name)]
        known = [*(sorted(self._sides) if beside else ()), *(self._list if among_columns else ())]
        lacks = f" names; it has no {quoted(name)}{hint(name, known)}"
        raise InputError((f"{self._where} must have the column that ", Setting(option), lacks))


def _two_roles(where: str, name: str | None, one: str, other: str) -> InputError:
    return InputError(f"A column of {where} must have one role; {quoted(name)} is {one} and {other}: leave one out.")


def _check_names(where: str, names: Sequence[str], wanted: set[Any]) -> None:
    """Refuse a name in use that several columns have."""
    if len(set(names)) == len(names):
        return
    twice = [name for name, count in Counter(names).items() if count > 1 and name in wanted]
    if twice:
        places = [str(number) for number, name in enumerate(names, 1) if name == twice[0]]
        raise InputError(
            f"The columns of {where} must have different names; {quoted(twice[0])} is the name of columns "
            f"{printable(', '.join(places))}",
            remedy=("rename or drop them, or say ", Setting("header", False), " if the first line is no header"),
        )


# -- The columns of one table in the roles they had in another: by name, in any order, texts as numbers and back ------


def inputs_of(layout: Layout) -> tuple[str, ...]:
    """Return the names of the columns that describe a row; its id and label do not."""
    return (*layout.numbers, *layout.texts)


def as_texts(values: NDArray[Any]) -> Texts:
    """Return texts with None where they are missing; truth values, dates and numbers become texts."""
    if values.dtype.kind in "mM":
        texts = values.astype(str).astype(object)
        texts[np.isnat(values)] = None
        return texts
    if values.dtype == object and all(value is None or type(value) is str for value in values.tolist()):
        return values
    texts = np.empty(len(values), dtype=object)
    texts[:] = [_text(value) for value in values]
    return texts


def _text(value: Any) -> str | None:
    if is_missing(value):
        return None
    if isinstance(value, float | np.floating):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 2**53 else str(value)
    return str(value)


def layout_for(wanted: Layout, table: Table) -> Layout:
    """Return the wanted columns, with the id and label of the table; refuse one that lacks a column."""
    there = table.layout
    present = {*inputs_of(there), there.id, there.label} - {None}
    p, q = len(wanted.numbers), len(there.numbers)
    if p != q and _unnamed(wanted) and _unnamed(there):  # columns that have no names cannot be chosen by name
        raise InputError(f"{table.name} has {q:,} features, but Preparation is expecting {p:,} features as input.")
    lacking = [name for name in inputs_of(wanted) if name not in present]
    if lacking:
        known = hint(lacking[0], sorted(str(name) for name in present))
        meant = f" ({known[2:]})" if "did you mean" in known else ""
        raise InputError(f"{table.name} must have the columns of the fit; it lacks {listed(lacking)}{meant}: add them.")
    taken = set(inputs_of(wanted))
    free = [None if name in taken else name for name in (there.id, there.label)]
    id = free[0] or (wanted.id if wanted.id in present else None)
    label = free[1] or (wanted.label if wanted.label in present and wanted.label != free[0] else None)
    return replace(wanted, id=id, label=label)


def _unnamed(layout: Layout) -> bool:
    return inputs_of(layout) == layout.numbers == tuple(default_names(len(layout.numbers)))


def relaid(rows: Rows, layout: Layout, name: str) -> Rows:
    """Return rows whose columns have other roles, as the layout says; each of its columns is among those of `rows`."""
    if layout == rows.layout:
        return rows
    columns = _Columns(rows, name)
    found = rows_of(layout, columns.numbers(layout.numbers), lambda name: as_texts(columns[name]), columns.__getitem__)
    return replace(found, first=rows.first)


class _Columns:
    """The columns of some rows, by name."""

    def __init__(self, rows: Rows, name: str) -> None:
        self._rows, self._name = rows, name
        self._number = {column: place for place, column in enumerate(rows.layout.numbers)}

    def __getitem__(self, column: str) -> NDArray[Any]:
        rows = self._rows
        if column in self._number:
            values = rows.numbers[:, [self._number[column]]]
            return np.asarray(values.toarray() if sparse.issparse(values) else values).ravel()
        if column in rows.categories:
            return rows.categories[column]
        beside = {rows.layout.text: rows.documents, rows.layout.id: rows.ids, rows.layout.label: rows.labels}
        found = beside.get(column)
        if found is None:
            raise InputError(f"{self._name} must have the column {quoted(column)}; it has not: add it.")
        return found

    def numbers(self, wanted: tuple[str, ...]) -> Any:
        """Return these columns as numbers: those that came as texts are read as such or refused.  # shape: (m, p)"""
        rows = self._rows
        if wanted == rows.layout.numbers:
            return rows.numbers
        places = [self._number.get(column, -1) for column in wanted]
        if -1 not in places:
            taken = rows.numbers[:, places]
            return taken if sparse.issparse(taken) else np.ascontiguousarray(taken)
        if sparse.issparse(rows.numbers):
            lacking = [column for column in wanted if column not in self._number]
            raise InputError(f"{self._name} must hold numbers in {listed(lacking)}, as at the fit; it holds texts.")
        taken = np.empty((len(rows), len(wanted)), dtype=rows.numbers.dtype)
        for target, (column, source) in enumerate(zip(wanted, places, strict=True)):
            taken[:, target] = rows.numbers[:, source] if source >= 0 else self._parsed(column)
        return taken

    def _parsed(self, column: str) -> NDArray[np.float64]:
        values = self[column]
        parsed = np.empty(len(values))
        for position, value in enumerate(values.tolist()):
            try:
                parsed[position] = np.nan if value is None else float(value)
            except (TypeError, ValueError):
                raise InputError(
                    f"{self._name} must hold numbers in column {quoted(column)}, as at the fit; "
                    f"{place(self._rows, position)} holds {quoted(value)}: correct it, or fit a model without the "
                    "column."
                ) from None
        return parsed


class RelaidTable:
    """A table whose columns have other roles."""

    def __init__(self, table: Table, layout: Layout) -> None:
        self._table, self.layout, self.name, self.n_rows = table, layout, table.name, table.n_rows
        self.dtype, self.sparse = table.dtype, table.sparse
        self.image_shape = table.image_shape if layout.numbers == table.layout.numbers else None
        self.digest = table.digest

    def chunks(self, rows: int | None = None) -> Iterator[Rows]:
        rows = rows or default_rows(max(len(inputs_of(self._table.layout)), 1), self.dtype, sparse=self.sparse)
        for chunk in self._table.chunks(rows):
            yield relaid(chunk, self.layout, self.name)

    def whole(self) -> Rows:
        return relaid(self._table.whole(), self.layout, self.name)


def with_layout(table: Table, layout: Layout) -> Table:
    """Return the table with these columns in these roles; a file that can do so reads them as such itself."""
    if layout == table.layout:
        return table
    own = getattr(table, "with_layout", None)
    return own(layout) if own is not None else RelaidTable(table, layout)
