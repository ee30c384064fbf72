"""The Python that does what a command did."""

from __future__ import annotations

from typing import Any

_WIDTH = 100


def call(name: str, *args: Any, **kwargs: Any) -> str:
    """Return a call as source text; arguments are shown by `repr`, unless they are `Source` already."""
    parts = [*map(_text, args), *(f"{key}={_text(value)}" for key, value in kwargs.items())]
    line = f"{name}({', '.join(parts)})"
    if len(line) <= _WIDTH:
        return line
    inside = "".join(f"    {part},\n" for part in parts)
    return f"{name}(\n{inside})"


class Source(str):
    """Source text that stands for itself."""


def _text(value: Any) -> str:
    if isinstance(value, Source):
        return str(value).replace("\n", "\n    ")
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def changed(values: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that are not what they are anyway."""
    return {name: value for name, value in values.items() if value != usual.get(name)}


class Script:
    """Lines of a program, with the settings of the machine around them."""

    def __init__(self, *imports: str) -> None:
        self._imports = list(imports)
        self._lines: list[str] = []
        self._settings: dict[str, Any] = {}

    def needs(self, *imports: str) -> None:
        """Add imports."""
        self._imports += [line for line in imports if line not in self._imports]

    def within(self, **settings: Any) -> None:
        """Run the lines under these settings of `kpca.config`; None is none."""
        self._settings.update({name: value for name, value in settings.items() if value is not None})

    def add(self, *lines: str) -> None:
        """Add lines, each a statement."""
        self._lines += lines

    def __str__(self) -> str:
        plain = sorted({line for line in self._imports if line.startswith("import ")})
        named: dict[str, set[str]] = {}
        for line in self._imports:
            if line.startswith("from "):
                module, _, name = line.removeprefix("from ").partition(" import ")
                named.setdefault(module, set()).add(name)
        gathered = [f"from {module} import {', '.join(sorted(named[module]))}" for module in sorted(named)]
        head = "\n".join([*plain, *([""] if plain and gathered else []), *gathered])
        settings = f"kpca.set_config({', '.join(f'{name}={value!r}' for name, value in self._settings.items())})\n"
        return f"{head}\n\n{settings if self._settings else ''}" + "\n".join(self._lines)
