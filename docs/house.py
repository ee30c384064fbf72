"""Draws the house from its imports, and traces real calls through it: the drawn parts of docs/architecture.md.

python docs/house.py            write them anew
python docs/house.py --check    say what is out of date; tests/test_architecture.py runs this
"""

from __future__ import annotations

import ast
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import kpca

PAGE = Path(__file__).with_name("architecture.md")
PACKAGE = Path(kpca.__file__).parent
FLOORS = (  # lowest first; tests/test_layers.py holds every import to this order
    "_base",
    "data",
    "kernels",
    "gram",
    "spectrum",
    "features",
    "preimage",
    "estimators",
    "selection",
    "diagnostics",
    "detector",
    "explain",
    "comparison",
    "plots",
    "io",
    "report",
    "cli",
)
MOST_HOPS = 15


def imports_of(file: Path) -> Iterator[str]:
    """Yield the floors that a file imports from."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "kpca":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("kpca.")]
        for name in names:
            public = name.split(".")[1]
            yield kpca._HOME.get(public, public).partition(".")[0]


def floors() -> str:
    """Return the table of floors, the highest first, as the house stands."""
    lines = ["| floor | what it is for | its rooms | stands on |", "|---|---|---|---|"]
    for floor in reversed(FLOORS):
        files = sorted((PACKAGE / floor).rglob("*.py"))
        docstring = ast.get_docstring(ast.parse((PACKAGE / floor / "__init__.py").read_text(encoding="utf-8"))) or ""
        purpose = " ".join(docstring.split("\n\n")[0].split()).rstrip(".")
        rooms = [f.relative_to(PACKAGE / floor).with_suffix("").as_posix() for f in files if f.stem != "__init__"]
        below = {name for file in files for name in imports_of(file)} & set(FLOORS) - {floor}
        stands = [name for name in reversed(FLOORS) if name in below]
        listed = " ".join(f"`{room}`" for room in rooms), " ".join(f"`{name}`" for name in stands) or "NumPy, SciPy"
        lines.append(f"| `{floor}` | {purpose} | {listed[0]} | {listed[1]} |")
    return "\n".join(lines)


def traced(run: Callable[[], Any], at: Callable[[str, str], bool]) -> list[str]:
    """Run something and return the modules on the stack, outermost first, when a call is longest under way to `at`.

    The base floor is left out: it holds tools, such as the loop that hands work to threads and calls back.
    """
    longest: list[str] = []

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or not (name := _module(frame)) or not at(name, frame.f_code.co_name):
            return
        hops: list[str] = []
        caller: FrameType | None = frame
        while caller is not None:
            name = _module(caller)
            if name and not name.startswith(("_base", "__init__")) and (not hops or hops[-1] != name):
                hops.append(name)
            caller = caller.f_back
        if len(hops) > len(longest):
            longest[:] = reversed(hops)

    sys.setprofile(look)
    threading.setprofile(look)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return longest


def _module(frame: FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts) if path.is_relative_to(PACKAGE) else ""


def ways() -> dict[str, list[str]]:
    """Return the ways of a row: what is called by what, from the door to the kernel value or to the file."""
    import contextlib
    import io

    import numpy as np

    from kpca import KernelPCA
    from kpca.cli import main
    from kpca.kernels import profiles

    X = np.random.default_rng(0).normal(size=(1300, 4))
    model = KernelPCA(3, kernel="rbf", gamma="median", preimage="fixed-point").fit(X)

    def value(module: str, function: str) -> bool:
        return module == "kernels.radial" and function in {"value", "shifted"}

    def entry(module: str, function: str) -> bool:
        return module.startswith("data.text")

    # Compiled loops cannot be traced, and the page is the same where there are none.
    by_numpy = mock.patch.object(profiles, "_loops", lambda: (None, "", ""))
    silent = contextlib.redirect_stdout(io.StringIO())
    with tempfile.TemporaryDirectory() as folder, kpca.config(threads=1), silent, by_numpy:
        file, saved = f"{folder}/rows.csv", f"{folder}/model.kpca"
        np.savetxt(file, X, delimiter=",", header="a,b,c,d", comments="")
        command = ["fit", file, "-o", saved, "--quiet"]
        return {
            "`KernelPCA(...).fit(X)`": traced(lambda: KernelPCA(3, kernel="rbf", gamma="median").fit(X), value),
            "`model.transform(X)`": traced(lambda: model.transform(X[:9]), value),
            "`model.denoise(X)`": traced(lambda: model.denoise(X[:9]), value),
            "`kpca fit file.csv`, to the file": traced(lambda: main(command, standalone_mode=False), entry),
            "`kpca fit file.csv`, to the kernel": traced(lambda: main(command, standalone_mode=False), value),
        }


def faults(way: list[str]) -> list[str]:
    """Return what is wrong with a way: too many hops, or one that goes up."""
    heights = [FLOORS.index(module.partition(".")[0]) for module in way]
    up = [f"{a} calls {b}" for a, b, low, high in zip(way, way[1:], heights, heights[1:], strict=False) if low < high]
    return up + ([f"{len(way)} hops"] if not 0 < len(way) <= MOST_HOPS else [])


def drawn() -> dict[str, str]:
    """Return the drawn parts of the page by their names."""
    lines = []
    for title, way in ways().items():
        assert not faults(way), (title, faults(way))
        lines.append(f"- {title}, {len(way)} modules: " + " → ".join(f"`{module}`" for module in way))
    return {"floors": floors(), "ways": "\n".join(lines)}


def redrawn(page: str) -> str:
    """Return the page with its drawn parts as they should be."""
    for name, part in drawn().items():
        pattern = rf"(<!-- drawn: {name} -->\n).*?(\n<!-- end -->)"
        page = re.sub(pattern, lambda found, part=part: found[1] + part + found[2], page, flags=re.DOTALL)
    return page


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8")
    after = redrawn(before)
    if "--check" not in sys.argv:
        PAGE.write_text(after, encoding="utf-8")
    elif before != after:
        sys.exit("docs/architecture.md is out of date: run python docs/house.py.")
