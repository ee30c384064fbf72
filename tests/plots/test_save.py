"""Pictures in files: whole or not at all, and the same bytes for the same picture."""

import errno
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from kpca import InputError, plots
from kpca._base import files


def picture(count: int = 40) -> Any:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(count, 2))  # rings, a scale of colours: identifiers of collections and images
    return plots.EmbeddingDisplay.from_scores(scores, np.arange(count), annotate=2).figure_


HEADS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf", ".PNG"])
def test_the_same_bytes_for_the_same_picture(tmp_path: Path, ending: str) -> None:
    for name in ("one", "two"):
        plots.save(picture(), tmp_path / f"{name}{ending}")
    one, two = ((tmp_path / f"{name}{ending}").read_bytes() for name in ("one", "two"))
    assert one == two and one.startswith(HEADS[ending.lower()])
    assert re.search(rb"20\d\d-\d\d-\d\dT", one) is None  # no date
    assert len(list(tmp_path.iterdir())) == 2


def test_identifiers_of_an_svg_belong_to_its_picture(tmp_path: Path) -> None:
    """Two pictures on one page do not take each other's shapes."""
    found = []
    for count in (40, 41):
        plots.save(picture(count), tmp_path / "picture.svg")
        text = (tmp_path / "picture.svg").read_text(encoding="utf-8")
        ElementTree.fromstring(text)
        known = set(re.findall(r'\bid="([^"]+)"', text))
        assert set(re.findall(r'href="#([^"]+)"', text)) | set(re.findall(r"url\(#([^)]+)\)", text)) <= known
        found.append({name for name in known if re.match(r"i[0-9a-f]{8}-", name)})
    assert found[0] and found[1] and not found[0] & found[1]


def test_half_a_million_rows_make_a_small_file(tmp_path: Path) -> None:
    scores = np.random.default_rng(0).normal(size=(500_000, 2))
    figure = plots.EmbeddingDisplay.from_scores(scores, np.arange(500_000) % 4).figure_
    for name in ("a.svg", "a.pdf", "a.png"):
        plots.save(figure, tmp_path / name)
        assert (tmp_path / name).stat().st_size < 1_000_000


def test_resolution(tmp_path: Path) -> None:
    for dots in (50, 100):
        plots.save(picture(), tmp_path / f"{dots}.png", resolution=dots)
    widths = [int.from_bytes((tmp_path / f"{dots}.png").read_bytes()[16:20], "big") for dots in (50, 100)]
    assert widths[1] == 2 * widths[0] == 640


@pytest.mark.parametrize("name", ["picture", "picture.jpg", ".png", "picture.png.gz"])
def test_other_formats(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"must end in \.png, \.svg, \.pdf; got"):
        plots.save(picture(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_places_that_cannot_be_written_to(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must exist"):
        plots.save(picture(), tmp_path / "absent" / "a.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(InputError, match="is a folder"):
        plots.save(picture(), tmp_path / "folder.png")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_full_disk_leaves_the_old_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    target = tmp_path / "old.png"
    target.write_bytes(b"old")

    def full(self: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.NewFile, "finish", full)
    with pytest.raises(InputError, match="it is full" if number == errno.ENOSPC else re.escape(os.strerror(number))):
        plots.save(picture(), target)
    assert target.read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_what_is_no_picture(tmp_path: Path) -> None:
    display = plots.SpectrumDisplay.from_eigenvalues([1.0])
    with pytest.raises(InputError, match=r"got SpectrumDisplay \(a display has it as figure_\)"):
        plots.save(display, tmp_path / "a.png")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="resolution must be"):
        plots.save(display.figure_, tmp_path / "a.png", resolution=0)


def test_no_global_state_is_left_behind(tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    plots.save(picture(), tmp_path / "a.svg")
    assert dict(matplotlib.rcParams) == before
