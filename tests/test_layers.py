"""The plan of the house: imports go down one list, an optional library lives in one file, no file names a machine."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import FLOORS

import kpca

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "kpca"

# Lowest first, one name a row: a floor imports from the floors before it, never from one that comes after.
LAYERS = [*FLOORS, "__main__", "__init__"]
LEVEL = {name: level for level, name in enumerate(LAYERS)}
STRANGERS = {frozenset({"spectrum", "features"})}  # neighbours that must not know each other

# An optional library -> the files of src/kpca that may import it.
OPTIONAL = {
    "torch": {"gram/_torch.py"},
    "triton": {"gram/_triton.py"},
    "dask": {"gram/_dask.py"},
    "matplotlib": {"plots/axes.py"},
    "plotly": {"report/build.py"},
    "pyarrow": {"data/arrow.py"},
    "zarr": {"data/zarr.py"},
    "onnx": {"io/onnx/_graph.py"},
    "anndata": {"data/h5ad.py"},
    "h5py": {"data/h5ad.py"},
    "PIL": {"data/images.py"},
    "umap": {"comparison/methods.py"},
}

SOURCES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def imported(source: str, file: str) -> Iterator[tuple[int, str]]:
    """(line, absolute dotted name) of each import in `source`, the text of src/kpca/`file`, at any depth."""
    package = ["kpca", *Path(file).parts[:-1]]
    tree = ast.parse(source, filename=file)
    exempt = type_checking_nodes(tree) if file == "__init__.py" else set()
    for node in ast.walk(tree):
        if node in exempt:
            continue
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package[: len(package) - level + 1] if level else []
                stem = ".".join([*base, *([module] if module else [])])
                yield from ((node.lineno, f"{stem}.{alias.name}") for alias in names)
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name


def type_checking_nodes(tree: ast.Module) -> set[ast.AST]:
    """All nodes in the bodies of `if TYPE_CHECKING:`; they run only in a type checker."""
    guarded = [
        statement
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in node.body
    ]
    return {inner for statement in guarded for inner in ast.walk(statement)}


def component(file: str) -> str:
    """The entry of LAYERS a file of src/kpca belongs to: its module, or the folder it is in."""
    return Path(file).parts[0].removesuffix(".py")


def target(name: str) -> str | None:
    """The entry of LAYERS that a dotted name leads to; None when it is not ours or is only the version."""
    head, *rest = name.split(".")
    if head != "kpca" or rest == ["__version__"]:
        return None
    if not rest:
        return "__init__"
    return kpca._HOME.get(rest[0], rest[0]).partition(".")[0]


def layer_faults(source: str, file: str) -> list[str]:
    """One sentence for each import of `source` that the order of LAYERS forbids."""
    here = component(file)
    if here not in LEVEL:
        return [f"src/kpca/{file} is in no layer: add {here!r} to LAYERS in tests/test_layers.py, at its height."]
    faults = []
    for line, name in imported(source, file):
        there = target(name)
        if there is None or there == here:
            continue
        where = f"src/kpca/{file}:{line} imports {name}"
        if there not in LEVEL:
            faults.append(f"{where}: import it from the module that holds it, or add {there!r} to LAYERS.")
        elif frozenset({here, there}) in STRANGERS:
            faults.append(f"{where}: {here} and {there} must not know each other.")
        elif LEVEL[there] > LEVEL[here]:
            faults.append(f"{where}: imports go down only, and {there} is above {here}.")
        elif any(part.startswith("_") for part in name.split(".")[2:-1]):
            faults.append(f"{where}: a module whose name begins with _ is for its own package.")
    return faults


def library_faults(source: str, file: str) -> list[str]:
    """One sentence for each optional library imported outside the file that is its home."""
    faults = []
    for line, name in imported(source, file):
        library = name.partition(".")[0]
        if file not in OPTIONAL.get(library, {file}):
            homes = ", ".join(sorted(OPTIONAL[library])) or "none yet: name one in OPTIONAL in tests/test_layers.py"
            faults.append(f"src/kpca/{file}:{line} imports {library}, an optional library; its file is {homes}.")
    return faults


@pytest.mark.parametrize("file", SOURCES)
def test_imports_go_down_only(file: str) -> None:
    assert layer_faults((PACKAGE / file).read_text(encoding="utf-8"), file) == []


@pytest.mark.parametrize("file", SOURCES)
def test_optional_library_lives_in_one_file(file: str) -> None:
    assert library_faults((PACKAGE / file).read_text(encoding="utf-8"), file) == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("kernels/radial.py", "from kpca.gram.operator import Gram"),
        ("kernels/radial.py", "from kpca.gram import operator"),
        ("kernels/radial.py", "from ..gram import operator"),
        ("kernels/radial.py", "from .. import gram"),
        ("kernels/radial.py", "import kpca"),
        ("kernels/radial.py", "import kpca.plots as p"),
        ("kernels/radial.py", "from kpca import KernelPCA"),
        ("kernels/radial.py", "from kpca import no_such_name"),
        ("kernels/radial.py", "def late():\n    from kpca.plots import maps"),
        ("kernels/radial.py", "if TYPE_CHECKING:\n    from kpca.estimators.plan import Plan"),
        ("kernels/radial.py", "importlib.import_module('kpca.plots')"),
        ("spectrum/dense.py", "from kpca.features import landmarks"),
        ("features/landmarks.py", "from ..spectrum.dense import solve"),
        ("preimage/back.py", "from kpca.estimators.kernel_pca import KernelPCA"),
        ("estimators/cost.py", "from kpca.gram._numpy import evaluator"),
        ("helpers.py", ""),
    ],
)
def test_forbidden_import_is_seen(file: str, source: str) -> None:
    assert len(layer_faults(source, file)) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        (
            "kernels/radial.py",
            "import numpy as np\nfrom kpca._base.errors import InputError\nfrom kpca import InputError",
        ),
        ("kernels/radial.py", "from . import base\nfrom .base import Kernel\nfrom .._base.config import get_config"),
        ("estimators/fitted.py", "from kpca import __version__, kernels\nfrom kpca.preimage import back"),
        ("cli/fit.py", "from kpca.cli import tour\nfrom kpca import KernelPCA"),
        ("__init__.py", "if TYPE_CHECKING:\n    from kpca.estimators.kernel_pca import KernelPCA"),
    ],
)
def test_allowed_import_is_not_seen(file: str, source: str) -> None:
    assert layer_faults(source, file) == []


def test_optional_import_outside_its_file_is_seen() -> None:
    assert library_faults("from matplotlib import pyplot", "plots/axes.py") == []
    assert library_faults("from kpca.io import onnx\nfrom . import torch", "gram/tiles.py") == []
    assert len(library_faults("def late():\n    from matplotlib import pyplot", "plan.py")) == 1
    assert len(library_faults("import torch, triton", "gram/_torch.py")) == 1


# Written so that this file does not contain what it looks for.
MACHINE = re.compile(r"(?<![\w.~])/(?:work|home|root|Users|opt)/|issue[ ]#|\.\./shared", re.IGNORECASE)
DATA_FOLDER = "/".join(["..", "shared", "data"])  # the default of KPCA_DATA
TEXT = {".py", ".md", ".rst", ".txt", ".toml", ".yaml", ".yml", ".html", ".css", ".js", ".json", ".ipynb"}
FOLDERS = ["src", "tests", "benchmarks", "docs", "examples", ".ci"]


def text_files() -> Iterator[Path]:
    """What a reader of the repository sees; not what a run leaves behind."""
    yield from (path for path in ROOT.iterdir() if path.suffix in TEXT or path.name in {"Makefile", ".editorconfig"})
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            left_behind = {"__pycache__", "results", "_build"} & set(path.relative_to(ROOT).parts)
            if path.is_file() and not left_behind and (path.suffix in TEXT or folder == ".ci"):
                yield path


def machine_faults(text: str, file: str) -> list[str]:
    """One sentence for each line that names a machine's folder or a tracker."""
    if file == "tests/conftest.py" or file.startswith("benchmarks/"):
        text = text.replace(DATA_FOLDER, "")
    return [
        f"{file}:{number} contains {found[0]!r}, which means nothing on another machine."
        for number, line in enumerate(text.splitlines(), 1)
        if (found := MACHINE.search(line))
    ]


def test_no_file_names_a_machine() -> None:
    faults = [
        fault
        for path in text_files()
        for fault in machine_faults(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())
    ]
    assert faults == []


def test_machine_path_is_seen() -> None:
    for bad in [f"/{'work'}/x", f"cd '/{'home'}/me'", f"see Issue {'#'}3", f"'{DATA_FOLDER}'"]:
        assert len(machine_faults(f"fine\n{bad}", "src/kpca/plan.py")) == 1, bad
    assert machine_faults(f"'{DATA_FOLDER}'", "benchmarks/bench_fit.py") == []
    assert len(machine_faults(DATA_FOLDER.replace("data", "other"), "benchmarks/bench_fit.py")) == 1
    assert machine_faults("x/work/y, work/, https://example.org/work/", "README.md") == []
