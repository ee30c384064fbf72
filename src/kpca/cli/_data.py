"""A file on its way to a model: opened, treated, and what is known of it."""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kpca.cli._code import Script, Source, call, changed
from kpca.errors import InputError

if TYPE_CHECKING:
    from kpca.cli._model import Fitted
    from kpca.cli._options import DataOptions
    from kpca.io.preparation import Preparation
    from kpca.io.rows import Table

_ROLES = ("columns", "drop", "label", "id", "text", "format", "header", "array", "delimiter", "size")


@dataclass(frozen=True)
class Data:
    """An open table, and how it is to be treated."""

    path: str
    table: Table
    options: DataOptions

    @classmethod
    def opened(cls, path: str, options: DataOptions, *, optional: tuple[str, ...] = ()) -> Data:
        """Open a file, a folder, or standard input (-); roles that are optional may name columns that are not there."""
        from kpca.io.tables import open_table

        given = {name: getattr(options, name) for name in _ROLES}
        table = open_table(path, **given, encode=options.encode, optional=optional)
        found = {role: getattr(table.layout, role) for role in optional}
        return cls(path, table, replace(options, **found))

    @property
    def name(self) -> str:
        """What the data is called in messages."""
        return "standard input" if self.path == "-" else os.path.basename(os.path.normpath(self.path))

    @property
    def scale(self) -> str:
        """How numbers are scaled: as asked, or as suits the kind of data."""
        if self.options.scale != "auto":
            return self.options.scale
        layout = self.table.layout
        return "none" if layout.text or self.table.sparse or self.table.image_shape else "standard"

    def preparation(self, *, scale: str | None = None) -> Preparation:
        """Return the treatment that was asked for, not yet fitted."""
        from kpca.io.preparation import Preparation

        return Preparation(**self._treatment(scale))

    def _treatment(self, scale: str | None) -> dict[str, Any]:
        return {
            "encode": self.options.encode,
            "impute": self.options.impute,
            "scale": self.scale if scale is None else scale,
        }

    @functools.cached_property  # the digest reads the whole file
    def facts(self) -> dict[str, Any]:
        """What is worth keeping with a model: it says which data it is from."""
        layout = self.table.layout
        return {
            "name": self.name,
            "sha256": self.table.digest(),
            "rows": self.table.n_rows,
            "numbers": len(layout.numbers),
            "categories": len(layout.categories),
            "text": layout.text,
            "label": layout.label,
            "id": layout.id,
            "image_shape": None if self.table.image_shape is None else list(self.table.image_shape),
        }

    @property
    def sentence(self) -> str:
        """The data in a sentence."""
        facts = self.facts
        kinds = [f"{facts[kind]:,} column{'s' if facts[kind] != 1 else ''} of {kind}" for kind in _KINDS if facts[kind]]
        roles = [f"{role} {facts[role]!r}" for role in ("text", "label", "id") if facts[role]]
        return f"{facts['name']}: {facts['rows']:,} rows, {', '.join([*kinds, *roles])}."

    def code(self, script: Script, name: str = "table", path: str | None = None) -> None:
        """Add the line that opens the table."""
        script.needs("from kpca.io import open_table")
        given = changed({role: getattr(self.options, role) for role in _ROLES}, {})
        if os.path.isdir(self.path) and self.table.image_shape is not None:  # names and folders have their roles
            given = {role: value for role, value in given.items() if role not in ("id", "label")}
        script.add(f"{name} = {call('open_table', self.path if path is None else path, **given)}")

    def preparation_code(self, script: Script, *, scale: str | None = None) -> Source:
        """Return the call that makes the treatment."""
        script.needs("from kpca.io import Preparation")
        usual = {"encode": None, "impute": None, "scale": "none"}
        return Source(call("Preparation", **changed(self._treatment(scale), usual)))


_KINDS = ("numbers", "categories")


def opened_for(path: str, options: DataOptions, fitted: Fitted) -> Data:
    """Open new data for a model; the id and the label of its fit are taken along where they are there."""
    from kpca.io.reading.roles import inputs_of

    layout = fitted.preparation.layout_
    for role in ("id", "label"):
        if getattr(options, role) in inputs_of(layout):
            raise InputError(
                f"--{role} must not name a column that the model takes; {getattr(options, role)!r} is one."
            )
    unsaid = {role: getattr(layout, role) for role in ("id", "label") if getattr(options, role) is None}
    wanted = replace(options, text=layout.text, encode=fitted.preparation.encode, **unsaid)
    if fitted.preparation.image_shape_ is not None and os.path.isdir(path):
        wanted = replace(wanted, size=fitted.preparation.image_shape_)
    return Data.opened(path, wanted, optional=tuple(role for role, name in unsaid.items() if name is not None))
