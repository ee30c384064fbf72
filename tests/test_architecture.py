"""docs/architecture.md shows the house as it stands, and the ways through it are short and lead down."""

import importlib.util
from pathlib import Path

from tests.test_layers import LAYERS

SCRIPT = Path(__file__).resolve().parents[1] / "docs" / "house.py"


def test_page_is_drawn_from_the_imports() -> None:
    spec = importlib.util.spec_from_file_location("house", SCRIPT)
    assert spec is not None and spec.loader is not None
    house = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(house)
    assert [name for name in LAYERS if name in house.FLOORS] == list(house.FLOORS)
    page = house.PAGE.read_text(encoding="utf-8")
    assert house.redrawn(page) == page, "run python docs/house.py"
    assert house.faults(["cli.fit", "gram.operator", "kernels.radial"]) == []
    assert house.faults(["kernels.radial", "gram.operator"]) == ["kernels.radial calls gram.operator"]
    assert house.faults(["cli.fit"] * 16) == ["16 hops"]
