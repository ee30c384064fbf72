"""docs/architecture.md shows the house as it stands, and the ways through it are short and lead down."""

import house


def test_page_is_drawn_from_the_imports() -> None:
    page = house.PAGE.read_text(encoding="utf-8")
    assert house.redrawn(page) == page, "run python docs/house.py"


def test_long_ways_and_ways_up_are_seen() -> None:
    assert house.faults(["cli.fit", "gram.operator", "kernels.radial"]) == []
    assert house.faults(["kernels.radial", "gram.operator"]) == ["kernels.radial calls gram.operator"]
    assert house.faults(["cli.fit"] * 16) == ["16 hops"]
