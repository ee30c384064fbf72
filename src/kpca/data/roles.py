"""Who is who among the columns of a table: numbers, categories, text, id and label."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
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


def roles_of(columns: Any, drop: Any, label: Any, id: Any, text: Any, *, optional: Sequence[str] = ()) -> Roles:
    """Return the roles a caller gave, in their final form."""
    lists: dict[str, Any] = {"columns": columns, "drop": drop}
    for option, given in lists.items():
        if given is None:
            continue
        try:
            lists[option] = (given,) if isinstance(given, str | int) else tuple(given)
        except TypeError as error:
            raise InputError(f"must be a list of names of columns; got {quoted(given)}", param=option) from error
    return Roles(**lists, label=label, id=id, text=text, optional=tuple(optional))


def assign(
    where: str,
    names: Sequence[str],
    roles: Roles,
    *,
    named: bool,
    hidden: Sequence[str] = (),
    sides: Collection[str] = (),
    only_sides: bool = False,
) -> Layout:
    """Return each column's role; those to analyse are called numbers here, in their order or in the one asked for.

    `hidden` name the rows, the first being the default id; `sides` can be id or label. With `only_sides` nothing else
    can be id or label: cells are called by their annotations, not by genes.
    """
    known = set(names)

    def find(option: str, given: Any) -> str:
        """Return the column that a caller means."""
        name, beside = str(given), option in ("label", "id")
        among_columns = not (beside and only_sides)
        if (among_columns and name in known) or (beside and name in sides):
            return name
        if among_columns and not named and name.isdecimal() and int(name) < len(names):
            return names[int(name)]
        there = [*(sorted(sides) if beside else ()), *(names if among_columns else ())]
        lacks = f" names; it has no {quoted(name)}{hint(name, there)}"
        raise InputError((f"{where} must have the column that ", Setting(option), lacks))

    beside: list[str | None] = []
    for option in ("label", "id", "text"):
        given = getattr(roles, option)
        absent = option in roles.optional and str(given) not in known and str(given) not in sides
        beside.append(None if given is None or absent else find(option, given))
    label, id, text = beside
    dropped = {find("drop", given) for given in roles.drop or ()}
    chosen = None if roles.columns is None else dict.fromkeys(find("columns", given) for given in roles.columns)
    claims: list[tuple[str, Collection[str | None]]] = [("among the columns", chosen or ()), ("dropped", dropped)]
    claims += [("the label", [label]), ("the id", [id]), ("the text", [text])]
    for (one, first), (another, second) in itertools.combinations(claims, 2):
        for name in first:
            if name is not None and name in second:
                told = f"A column of {where} must have one role; {quoted(name)} is {one} and {another}"
                raise InputError(told, remedy="take it out of one of the two")
    taken = {*hidden, *dropped, *beside}
    used = tuple(name for name in names if name not in taken) if chosen is None else tuple(chosen)
    if id is None and len(hidden) == 1 and hidden[0] not in used and hidden[0] not in dropped | {label, text}:
        id = hidden[0]
    _check_names(where, names, {*used, label, id, text} - {None})
    if not used and text is None:
        said = f"{where} must have a column left to analyse; all {len(names)} are left out or have another role"
        raise InputError(said, remedy="name other columns, or drop fewer")
    return Layout(used, (), text, id, label)


def _check_names(where: str, names: Sequence[str], wanted: set[Any]) -> None:
    """Refuse a name in use that several columns have."""
    if len(set(names)) == len(names):
        return
    twice = [name for name, count in Counter(names).items() if count > 1 and name in wanted]
    if twice:
        places = [str(number) for number, name in enumerate(names, 1) if name == twice[0]]
        raise InputError(
            f"The columns of {where} must have different names; {quoted(twice[0])} is the name of columns "
            f"{listed(places, raw=True)}",
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
    return np.fromiter((_text(value) for value in values), dtype=object)


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
        said = f"{table.name} must have the columns of the fit; it lacks {listed(lacking)}{meant}"
        raise InputError(said, remedy="add them, or fit a model without them")
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
    number = {column: place for place, column in enumerate(rows.layout.numbers)}
    beside = {rows.layout.text: rows.documents, rows.layout.id: rows.ids, rows.layout.label: rows.labels}

    def values(column: str) -> NDArray[Any]:
        if column in number:
            found = rows.numbers[:, [number[column]]]
            return np.asarray(found.toarray() if sparse.issparse(found) else found).ravel()
        found = rows.categories.get(column, beside.get(column))
        if found is None:
            raise InputError(f"{name} must have the column {quoted(column)}; it has not: add it.")
        return found

    lacking = [column for column in layout.numbers if column not in number]
    if layout.numbers == rows.layout.numbers:
        numbers = rows.numbers
    elif not lacking:
        numbers = rows.numbers[:, [number[column] for column in layout.numbers]]
        numbers = numbers if sparse.issparse(numbers) else np.ascontiguousarray(numbers)
    elif sparse.issparse(rows.numbers):
        raise InputError(f"{name} must hold numbers in {listed(lacking)}, as at the fit; it holds texts.")
    else:
        numbers = np.empty((len(rows), len(layout.numbers)), dtype=rows.numbers.dtype)
        for target, column in enumerate(layout.numbers):
            found = values(column)
            numbers[:, target] = found if column in number else _parsed(rows, column, found, name)
    relaid = rows_of(layout, numbers, lambda column: as_texts(values(column)), values)
    return replace(relaid, first=rows.first)


def _parsed(rows: Rows, column: str, values: NDArray[Any], name: str) -> NDArray[np.float64]:
    """Return a column that came as texts as numbers, or refuse it.  # shape: (m,)"""
    parsed = np.empty(len(values))
    for position, value in enumerate(values.tolist()):
        try:
            parsed[position] = np.nan if value is None else float(value)
        except (TypeError, ValueError):
            raise InputError(
                f"{name} must hold numbers in column {quoted(column)}, as at the fit; {place(rows, position)} holds "
                f"{quoted(value)}: correct it, or fit a model without the column."
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
