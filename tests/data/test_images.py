"""Folders of pictures as tables, and rows back to pictures."""

from __future__ import annotations

import os
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import kpca
from kpca._base.errors import InputError
from kpca.data.images import ImageReader, ImageWriter, read_grey
from kpca.data.opening import open_table
from kpca.data.preparation import Preparation
from kpca.data.sinks import open_writer

Image = pytest.importorskip("PIL.Image")

RNG = np.random.default_rng(0)
LEVELS = RNG.integers(0, 256, size=(7, 5)).astype(np.uint8)


def write_images(folder: Path, rows: Any, ids: Any, image_shape: tuple[int, int]) -> None:
    with ImageWriter(folder, image_shape, "id") as writer:
        writer.write(rows, {} if ids is None else {"id": ids})


def save(path: Path, levels: Any = LEVELS, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(levels)).save(path, **options)
    return path


def refusal(call: Any) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
    return str(caught.value)


# --- formats and modes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".png", ".PNG", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".webp"])
def test_formats_without_loss(suffix: str, tmp_path: Path) -> None:
    options = {"lossless": True} if suffix == ".webp" else {}
    save(tmp_path / f"x{suffix}", **options)
    table = open_table(tmp_path)
    assert table.image_shape == (7, 5) and table.dtype == np.float32 and not table.sparse
    found = table.whole().numbers
    assert found.dtype == np.float32
    assert_array_equal(found, LEVELS.reshape(1, -1).astype(np.float32) / np.float32(255))


@pytest.mark.parametrize("suffix", [".jpg", ".jpeg"])
def test_jpeg_is_near(suffix: str, tmp_path: Path) -> None:
    save(tmp_path / f"x{suffix}", np.full((16, 16), 100, np.uint8))
    assert_allclose(open_table(tmp_path).whole().numbers, 100 / 255, atol=0.01)


def test_sixteen_bits(tmp_path: Path) -> None:
    deep = (LEVELS.astype(np.uint16) << 8) + 7
    for suffix in ("png", "tif", "pgm"):
        path = save(tmp_path / f"x.{suffix}", deep)
        assert_allclose(read_grey(str(path)), deep / 65535, atol=1e-7)


def test_floats(tmp_path: Path) -> None:
    path = save(tmp_path / "x.tif", (LEVELS / 255).astype(np.float32))
    assert_allclose(read_grey(str(path)), LEVELS / 255, atol=1e-7)
    for wrong in (LEVELS.astype(np.float32), np.full((2, 2), np.nan, np.float32), -LEVELS.astype(np.int32) - 1):
        path = save(tmp_path / "y.tif", wrong)
        assert "must have grey levels from 0 to" in refusal(lambda path=path: read_grey(str(path)))


def test_one_bit_palette_colours_and_alpha(tmp_path: Path) -> None:
    bits = LEVELS > 127
    assert_array_equal(read_grey(str(save(tmp_path / "bits.png", bits))), bits.astype(np.float32))
    palette = Image.fromarray(LEVELS).convert("P")
    palette.save(tmp_path / "palette.png")
    assert_allclose(read_grey(str(tmp_path / "palette.png")), LEVELS / 255, atol=1e-6)
    colours = np.stack([LEVELS, LEVELS, LEVELS], axis=-1)
    assert_allclose(read_grey(str(save(tmp_path / "rgb.png", colours))), LEVELS / 255, atol=1e-6)
    red = np.zeros((7, 5, 3), np.uint8)
    red[..., 0] = 255
    assert_allclose(read_grey(str(save(tmp_path / "red.png", red))), 0.299, atol=0.003)  # its luminance
    veiled = np.dstack([LEVELS, np.where(LEVELS > 127, 255, 0).astype(np.uint8)])
    expected = np.where(LEVELS > 127, LEVELS / 255, 1.0)  # white paper shows through
    assert_allclose(read_grey(str(save(tmp_path / "la.png", veiled))), expected, atol=1e-6)
    Image.fromarray(red).convert("CMYK").save(tmp_path / "cmyk.tif")
    assert read_grey(str(tmp_path / "cmyk.tif")).max() < 0.4
    see_through = Image.new("P", (5, 7), 0)
    see_through.putpalette([0, 0, 0] * 256)
    see_through.save(tmp_path / "clear.png", transparency=0)
    assert_array_equal(read_grey(str(tmp_path / "clear.png")), np.ones((7, 5)))


def test_first_frame_and_orientation(tmp_path: Path) -> None:
    frames = [Image.fromarray(np.full((4, 4), level, np.uint8)) for level in (0, 255)]
    frames[0].save(tmp_path / "film.gif", save_all=True, append_images=frames[1:])
    assert_array_equal(read_grey(str(tmp_path / "film.gif")), np.zeros((4, 4)))
    turned = Image.fromarray(LEVELS)
    marks = Image.Exif()
    marks[0x0112] = 6  # the camera was held upright
    turned.save(tmp_path / "turned.png", exif=marks)
    assert_allclose(read_grey(str(tmp_path / "turned.png")), np.rot90(LEVELS, -1) / 255, atol=1e-6)


# --- folders ----------------------------------------------------------------------------------------------------------


def make_folder(folder: Path) -> list[str]:
    names = ["b/2.png", "b/10.png", "a/x.bmp", "top.png"]
    for place, name in enumerate(names):
        save(folder / name, np.full((3, 2), place * 10, np.uint8))
    for other in (".hidden.png", "notes.txt", "a/.DS_Store", "a/deeper/far.png", ".git/x.png"):
        (folder / other).parent.mkdir(parents=True, exist_ok=True)
        (folder / other).write_bytes(b"no picture")
    return names


def test_rows_ids_and_labels(tmp_path: Path) -> None:
    make_folder(tmp_path)
    table = open_table(tmp_path)
    rows = table.whole()
    assert list(rows.ids) == ["a/x.bmp", "b/10.png", "b/2.png", "top.png"]
    assert list(rows.labels) == ["a", "b", "b", None]
    assert_allclose(rows.numbers[:, 0] * 255, [20, 10, 0, 30], atol=1e-4)
    assert table.layout.numbers == ("pixel 0,0", "pixel 0,1", "pixel 1,0", "pixel 1,1", "pixel 2,0", "pixel 2,1")
    assert (table.layout.id, table.layout.label, table.n_rows, table.name) == ("file", "folder", 4, str(tmp_path))
    parts = list(table.chunks(3))
    assert [(part.first, len(part)) for part in parts] == [(0, 3), (3, 1)]
    assert_array_equal(np.vstack([part.numbers for part in parts]), rows.numbers)
    before = table.digest()
    save(tmp_path / "top.png", np.full((3, 2), 99, np.uint8))
    assert open_table(tmp_path).digest() != before


def test_no_labels_without_subfolders(tmp_path: Path) -> None:
    save(tmp_path / "x.png")
    assert open_table(tmp_path).layout.label is None and open_table(tmp_path).whole().labels is None


def test_a_folder_of_images_is_prepared_and_written_back(tmp_path: Path) -> None:
    for number in range(12):
        save(tmp_path / "in" / f"{number:02d}.png", RNG.integers(0, 256, (4, 3)).astype(np.uint8))
    table = open_table(tmp_path / "in")
    preparation = Preparation(scale="standard").fit(table)
    X = preparation.transform(table)
    assert X.dtype == np.float32 and preparation.image_shape_ == (4, 3)
    back = preparation.inverse_transform(X).numbers
    write_images(tmp_path / "out", back, table.whole().ids, (4, 3))
    assert_array_equal(open_table(tmp_path / "out").whole().numbers, table.whole().numbers)
    assert list(open_table(tmp_path / "out").whole().ids) == list(table.whole().ids)
    with kpca.config(memory_limit=100):
        assert_array_equal(np.vstack(list(preparation.transform(table).chunks(5))), X)


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_sizes_must_agree_unless_one_is_given(tmp_path: Path) -> None:
    save(tmp_path / "a.png", np.zeros((4, 6), np.uint8))
    save(tmp_path / "b.png", np.full((8, 8), 255, np.uint8))
    message = refusal(lambda: open_table(tmp_path).whole())
    assert "4 × 6 pixels" in message and "b.png' has 8 × 8" in message and "a size (height, width)" in message
    table = open_table(tmp_path, size=(2, 3))
    assert table.image_shape == (2, 3)
    assert_array_equal(table.whole().numbers, [[0.0] * 6, [1.0] * 6])


@pytest.mark.parametrize("size", [3, (3,), (0, 4), (2.5, 2), ("a", "b"), (-1, 2), (10**5, 10**5)])
def test_wrong_sizes(size: Any, tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    assert "size must be (height, width)" in refusal(lambda: open_table(tmp_path, size=size))


def test_resizing_averages(tmp_path: Path) -> None:
    chess = (np.indices((64, 64)).sum(axis=0) % 2 * 255).astype(np.uint8)
    save(tmp_path / "a.png", chess)
    assert_allclose(open_table(tmp_path, size=(4, 4)).whole().numbers, 0.5, atol=0.02)


def test_more_pixels_than_columns_may_be(tmp_path: Path) -> None:
    save(tmp_path / "a.png", np.zeros((2049, 2048), np.uint8))
    assert "has 2049 × 2048: give a smaller size" in refusal(lambda: open_table(tmp_path))
    assert open_table(tmp_path, size=(4, 4)).whole().numbers.shape == (1, 16)


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_folders_without_images(tmp_path: Path) -> None:
    assert "images; it is empty" in refusal(lambda: open_table(tmp_path))
    (tmp_path / "a.txt").write_text("x")
    (tmp_path / ".b.png").write_text("x")
    assert refusal(lambda: open_table(tmp_path)).endswith("it holds none; 1 other file was ignored.")
    assert "File not found" in refusal(lambda: open_table(tmp_path / "nowhere"))
    assert "size is for images; " in refusal(lambda: open_table(tmp_path / "a.txt", size=(2, 2)))
    assert "No such file" in refusal(lambda: ImageReader(str(tmp_path / "nowhere")))
    assert "Not a directory" in refusal(lambda: ImageReader(str(tmp_path / "a.txt")))


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".gif", ".bmp", ".tif", ".webp", ".pgm"])
def test_broken_images_are_named(suffix: str, tmp_path: Path) -> None:
    good = save(tmp_path / "a.png", RNG.integers(0, 256, (40, 40)).astype(np.uint8))
    path = save(tmp_path / f"b{suffix}", RNG.integers(0, 256, (40, 40)).astype(np.uint8))
    whole = path.read_bytes()
    for content in (b"", b"nothing of the kind", whole[: len(whole) // 2], whole[:12], b"%!PS-Adobe-3.0 EPSF-3.0\n"):
        path.write_bytes(content)
        message = refusal(lambda: open_table(tmp_path).whole())
        assert path.name in message and good.name not in message


def bomb(width: int, height: int) -> bytes:
    """A small PNG that claims to be a large picture."""

    def block(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes(1000))
    return b"\x89PNG\r\n\x1a\n" + block(b"IHDR", header) + block(b"IDAT", pixels) + block(b"IEND", b"")


@pytest.mark.parametrize("side", [10_000, 60_000])
def test_far_too_large_images(side: int, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(bomb(side, side))
    for size in (None, (8, 8)):
        assert "a.png' must have at most 89,478,485 pixels" in refusal(
            lambda size=size: open_table(tmp_path, size=size).whole()
        )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path: Path) -> None:
    save(tmp_path / "a.png").chmod(0)
    assert "no permission" in refusal(lambda: open_table(tmp_path))


def test_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "a.png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert refusal(lambda: open_table(tmp_path)) == "Reading images needs pillow: pip install 'kpca[images]'."


def test_links_that_lead_nowhere_are_no_images(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    (tmp_path / "self.png").symlink_to("self.png")
    (tmp_path / "gone.png").symlink_to("nowhere.png")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "self.png").symlink_to("self.png")
    assert [path for rows in open_table(tmp_path).chunks() for path in rows.ids] == ["a.png"]  # type: ignore[union-attr]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_names_that_are_no_unicode_can_be_written_anywhere(tmp_path: Path) -> None:
    save(tmp_path / "in" / "a.png")
    os.rename(tmp_path / "in" / "a.png", os.fsencode(tmp_path / "in") + b"/\xff.png")
    table = open_table(tmp_path / "in")
    ids = table.whole().ids
    assert ids is not None and ids.tolist() == ["\\xff.png"]
    assert len(table.digest()) == 64
    with open_writer(tmp_path / "out.csv", ["a"], extras=["file"]) as writer:
        writer.write(np.ones((1, 1)), {"file": ids})
    assert open_table(tmp_path / "out.csv", id="file").whole().ids.tolist() == ids.tolist()  # type: ignore[union-attr]


def test_an_image_that_goes_away_has_no_digest(tmp_path: Path) -> None:
    table = open_table(save(tmp_path / "a.png").parent)
    (tmp_path / "a.png").unlink()
    assert "a.png' must stay readable" in refusal(table.digest)


@pytest.mark.parametrize("rows", [0, -1, 1.5, True])
def test_wrong_numbers_of_rows(rows: Any, tmp_path: Path) -> None:
    table = open_table(save(tmp_path / "a.png").parent)
    assert "rows must be" in refusal(lambda: table.chunks(rows))


def test_more_images_than_memory_are_not_taken_whole(tmp_path: Path) -> None:
    table = open_table(save(tmp_path / "a.png", np.zeros((2000, 2000), np.uint8)).parent)
    with kpca.config(memory_limit="8MiB"):
        assert "must fit into memory to be taken whole" in refusal(table.whole)


# --- writing ----------------------------------------------------------------------------------------------------------


def written(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_names_of_written_files(tmp_path: Path) -> None:
    ids = ["a.jpg", "a.png", "A.png", "s/b.gif", "../../up.png", "/etc/x", "c:\\d\\e.png", "", "..", ".hidden", "n\nl?"]
    ids += ["ü" * 300, "\ud800", "t.png/u.png", "s.png", "s/", 12]
    target = tmp_path / "deep" / "out"
    target.parent.mkdir()
    write_images(target, np.zeros((len(ids), 4)), ids, (2, 2))
    names = written(tmp_path)
    assert len(names) == len(ids) and all(name.startswith("deep/out/") and name.endswith(".png") for name in names)
    assert len({name.casefold() for name in names}) == len(names)
    found = written(target)
    assert {"a.png", "s/b.png", "up.png", "etc/x.png", "hidden.png", "12.png"} <= set(found)
    assert not any(".." in name or "\n" in name for name in found)


def test_files_and_folders_of_one_name(tmp_path: Path) -> None:
    write_images(tmp_path / "out", np.zeros((3, 1)), ["t", "t.png/u", "v.png/w"], (1, 1))
    write_images(tmp_path / "two", np.zeros((2, 1)), ["v.png/w", "v"], (1, 1))
    assert len(written(tmp_path / "out")) == 3 and len(written(tmp_path / "two")) == 2


def test_levels_are_cut_off(tmp_path: Path) -> None:
    write_images(tmp_path / "out", np.array([[-0.5, 0.0, 0.5, 1.7]]), None, (2, 2))
    assert written(tmp_path / "out") == ["000000.png"]
    assert_allclose(open_table(tmp_path / "out").whole().numbers, [[0, 0, 128 / 255, 1]], atol=1e-6)


def test_all_or_nothing(tmp_path: Path) -> None:
    for rows, message in ((np.zeros((2, 3)), "must have 4 grey levels"), (np.full((1, 4), np.nan), "must be finite")):
        assert message in refusal(lambda rows=rows: write_images(tmp_path / "out", rows, None, (2, 2)))
    with pytest.raises(KeyboardInterrupt), ImageWriter(tmp_path / "out", (2, 2)) as writer:
        writer.write(np.zeros((2, 4)))
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays(tmp_path: Path) -> None:
    save(tmp_path / "out" / "mine.png")
    (tmp_path / "file").write_text("x")
    for name in ("out", "file"):
        assert "must be a new folder" in refusal(
            lambda name=name: write_images(tmp_path / name, np.zeros((1, 4)), None, (2, 2))
        )
    assert written(tmp_path) == ["file", "out/mine.png"]
    (tmp_path / "empty").mkdir()
    write_images(tmp_path / "empty", np.zeros((1, 4)), None, (2, 2))
    assert written(tmp_path / "empty") == ["000000.png"]
    assert "must exist" in refusal(lambda: write_images(tmp_path / "no" / "out", np.zeros((1, 4)), None, (2, 2)))


def test_chunks_are_numbered_on(tmp_path: Path) -> None:
    with ImageWriter(tmp_path / "out", (1, 2)) as writer:
        writer.write(np.zeros((2, 2)))
        assert not (tmp_path / "out").exists()
        writer.write(np.ones((1, 2)))
    assert written(tmp_path / "out") == ["000000.png", "000001.png", "000002.png"]
