"""Pictures in files, as grey levels. The only file that knows Pillow."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError, InPython, Setting
from kpca._base.files import temporary_name
from kpca.data.arrays import MatrixReader
from kpca.data.formats import feed
from kpca.data.rows import Indices, needed, unreadable

Grey = NDArray[np.float32]  # levels from 0 (black) to 1 (white); shape: (height, width)

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".pbm", ".pnm", ".webp")
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "PPM", "WEBP")  # by content: no format that runs other programs


def _pillow(doing: str) -> Any:
    with needed(f"{doing} images needs pillow", "images"):
        import PIL
        import PIL.Image
        import PIL.ImageOps
    return PIL


def read_grey(path: str, size: tuple[int, int] | None = None) -> Grey:
    """Return the grey levels of a picture's first frame on white paper, resized to (height, width) if given."""
    pil = _pillow("Reading")
    try:
        # A warning of Pillow about far too many pixels becomes an error; damage must not pass as a warning either.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", pil.Image.DecompressionBombWarning)
            with pil.Image.open(path, formats=_FORMATS) as image:
                levels = _levels(pil, pil.ImageOps.exif_transpose(image), path)
    except (InputError, MemoryError):
        raise
    except (pil.Image.DecompressionBombWarning, pil.Image.DecompressionBombError) as error:
        most = pil.Image.MAX_IMAGE_PIXELS
        raise InputError(f"{path!r} must have at most {most:,} pixels; it claims to have more: shrink it.") from error
    except pil.UnidentifiedImageError as error:
        raise InputError(f"{path!r} must be an image, as its name says; it is none: remove it.") from error
    except Exception as error:  # decoders raise what they like: SyntaxError, struct.error, zlib.error, IndexError
        raise unreadable(path, "image", error) from error
    if size is None or levels.shape == size:
        return levels
    height, width = size
    picture = pil.Image.fromarray(levels).resize((width, height), pil.Image.Resampling.BILINEAR)
    return np.clip(np.asarray(picture, dtype=np.float32), 0.0, 1.0)


def _levels(pil: Any, image: Any, path: str) -> Grey:
    """Return the grey levels of an open picture."""
    mode = image.mode
    if mode.startswith("I") or mode == "F":  # 16 bits, or floats from 0 to 1
        values = np.asarray(image)
        most = 1.0 if mode == "F" else 65535.0
        if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= most):
            raise InputError(f"{path!r} must have grey levels from 0 to {most:g}; it has others: save it with 8 bits.")
        return (values / most).astype(np.float32)
    if mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        coloured = image.convert("RGBA")
        paper = pil.Image.new("RGBA", coloured.size, (255, 255, 255, 255))
        image = pil.Image.alpha_composite(paper, coloured)
    if image.mode not in ("1", "L", "RGB"):
        image = image.convert("RGB")  # palettes, CMYK, YCbCr
    return np.asarray(image.convert("L"), dtype=np.float32) / np.float32(255)


# -- A folder of pictures as a table, a row of grey levels for each; and rows back to pictures ------------------------

_LONGEST_NAME = 200  # bytes of the name of a file that is written; file systems stop at 255
_MOST_PIXELS = 1 << 22  # each is a column with a name
_PAIR = InPython("(height, width)", "HEIGHTxWIDTH")


class _Picture(NamedTuple):
    id: str  # the name within the folder
    path: str
    label: str | None  # the subfolder


def _pictures(folder: str) -> tuple[list[_Picture], int]:
    """Return the pictures of a folder and of the folders in it, in the order of their names; and how many others."""
    found: list[_Picture] = []
    others = 0
    for path, name in _entries(folder):
        label = name if os.path.isdir(path) else None
        for inner, id in [(path, name)] if label is None else _entries(path):
            if inner.lower().endswith(SUFFIXES) and os.path.isfile(inner):
                found.append(_Picture(id if label is None else f"{label}/{id}", inner, label))
            else:
                others += 1
    return sorted(found), others


def _entries(folder: str) -> list[tuple[str, str]]:
    """Return what is in a folder: paths, and names as texts, also where their bytes are no Unicode."""
    try:
        names = [name for name in os.listdir(folder) if not name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder!r} must be a folder that can be read; it cannot ({error.strerror}).") from error
    return [(os.path.join(folder, n), os.fsencode(n).decode("utf-8", "backslashreplace")) for n in names]


class ImageReader(MatrixReader):
    """A folder of pictures: PNG, JPEG, BMP, GIF (the first frame), TIFF, PGM or WebP, known by their suffix.

    A row holds the grey levels of a picture, from 0 (black) to 1 (white), line by line, as float32. Rows go by name;
    the pictures of subfolders, one level down, come with them, and have the name of the subfolder as label. All must
    be of one size, or `size` = (height, width) be given, to which they are resized. They are read when their rows are
    asked for.
    """

    dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(self, path: str, size: tuple[int, int] | None = None) -> None:
        self._resized = size
        if size is not None:
            whole = isinstance(size, tuple | list) and [isinstance(n, int | np.integer) for n in size] == [True, True]
            if not whole or min(size) < 1 or size[0] * size[1] > _MOST_PIXELS:
                limits = f", whole numbers from 1, {_MOST_PIXELS:,} pixels at most; got {size!r}"
                raise InputError(("must be ", _PAIR, limits), param="size")
            self._resized = int(size[0]), int(size[1])
        self._pictures, others = _pictures(path)
        if not self._pictures:
            ignored = f"; {others:,} other file{' was' if others == 1 else 's were'} ignored" if others else ""
            raise InputError(
                f"{path!r} must hold images ({', '.join(SUFFIXES)}) or folders of them; it holds none{ignored}."
            )
        first = self._pictures[0].path
        height, width = self._resized or read_grey(first).shape
        if height * width > _MOST_PIXELS:
            raise InputError(
                f"Images must have at most {_MOST_PIXELS:,} pixels, each is a column; {first!r} has {height} × {width}",
                remedy=("give a smaller ", Setting("size"), " ", _PAIR),
            )
        self.image_shape: tuple[int, int] = (int(height), int(width))
        self.n_rows, self.n_columns = len(self._pictures), height * width
        self.names = [f"pixel {row},{column}" for row in range(height) for column in range(width)]
        ids, _, labels = zip(*self._pictures, strict=True)
        self.sides, self.beside = {"file": partial(np.array, ids, dtype=object)}, {"id": "file"}
        if any(label is not None for label in labels):
            self.sides["folder"] = partial(np.array, labels, dtype=object)
            self.beside["label"] = "folder"

    def blocks(self, rows: int) -> Iterator[Any]:
        for start in range(0, self.n_rows, rows):
            yield self._levels(self._pictures[start : start + rows])

    def take(self, indices: Indices) -> Any:
        return self._levels([self._pictures[number] for number in indices])

    def _levels(self, pictures: list[_Picture]) -> NDArray[np.float32]:
        numbers = np.empty((len(pictures), self.n_columns), dtype=np.float32)
        for row, picture in enumerate(pictures):
            levels = read_grey(picture.path, self._resized)
            if levels.shape != self.image_shape:
                (height, width), expected = levels.shape, self.image_shape
                raise InputError(
                    f"All images must have the size of the first, {expected[0]} × {expected[1]} pixels (height × "
                    f"width); {picture.path!r} has {height} × {width}",
                    remedy=("resize it, or give a ", Setting("size"), " ", _PAIR),
                )
            numbers[row] = levels.ravel()
        return numbers

    def digest(self) -> str:
        """Return the SHA-256 of the names and contents of the files."""
        found = hashlib.sha256()
        for picture in self._pictures:
            name = picture.id.encode()
            size = os.path.getsize(picture.path) if os.path.exists(picture.path) else 0  # `feed` refuses a lost file
            found.update(b"%d %d " % (len(name), size) + name)
            feed(found, picture.path)
        return found.hexdigest()


class ImageWriter:
    """A new folder of pictures, a PNG of 8 bits for each row; it appears whole or not at all."""

    def __init__(self, folder: str | os.PathLike[str], image_shape: tuple[int, int], id: str | None = None) -> None:
        self._target = os.path.realpath(os.fsdecode(os.fspath(folder)))
        self._shape, self._id = image_shape, id  # which of the columns beside the rows names the files
        self._taken: set[str] = set()  # names of files, in lower case: some file systems know no other
        self._folders: set[str] = set()
        self._next: dict[str, int] = {}  # the number of the next file that would be called the same
        self._done = 0
        empty = os.path.isdir(self._target) and not os.listdir(self._target)  # which a rename replaces
        if os.path.lexists(self._target) and not empty:
            told = f"{os.fsdecode(folder)!r} must be a new folder for the images; there is something of that name"
            raise InputError(told, remedy="choose another")
        self._temporary = temporary_name(self._target)
        try:
            os.mkdir(self._temporary)
        except OSError as error:
            raise self._unwritable(error) from error

    def write(self, rows: NDArray[Any], extras: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Write rows of grey levels; ids name the files, row numbers where there are none."""
        rows = np.asarray(rows)
        ids = None if self._id is None else extras.get(self._id)
        height, width = self._shape
        if rows.ndim != 2 or rows.shape[1] != height * width:
            raise InputError(f"Rows must have {height * width} grey levels; got shape {rows.shape}.")
        if not np.isfinite(rows).all():
            raise InputError("Grey levels must be finite; got NaN or infinity.")
        pil = _pillow("Writing")
        rows = np.rint(np.clip(rows, 0.0, 1.0) * 255).astype(np.uint8)
        for position, levels in enumerate(rows):
            name = self._name(f"{self._done:06d}" if ids is None else str(ids[position]))
            path = os.path.join(self._temporary, name)
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "xb") as file:
                    pil.Image.fromarray(levels.reshape(height, width)).save(file, format="PNG")
            except OSError as error:
                raise self._unwritable(error) from error
            self._done += 1

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"{self._target!r} must be a folder that can be written; it cannot ({error.strerror}).")

    def _name(self, id: str) -> str:
        """Return an unused path below the folder, at most one level down, that ends in .png."""
        parts = [part for part in id.replace("\\", "/").split("/") if part not in ("", ".", "..")][-2:]
        for place, part in enumerate(parts):  # names that every system takes and none hides
            plain = "".join(letter if letter.isprintable() and letter not in '<>:"|?*' else "_" for letter in part)
            parts[place] = plain.encode()[:_LONGEST_NAME].decode(errors="ignore").lstrip(".") or "_"
        last = parts[-1] if parts else "_"
        stem, suffix = os.path.splitext(last)
        stem = stem if suffix.lower() in SUFFIXES else last
        folder = parts[0] if len(parts) == 2 else ""
        while folder.casefold() in self._taken:  # there is a file of that name
            folder += "_"
        found = first = os.path.join(folder, f"{stem}.png")
        while found.casefold() in self._taken or found.casefold() in self._folders:
            number = self._next.get(first.casefold(), 2)
            found, self._next[first.casefold()] = os.path.join(folder, f"{stem} ({number}).png"), number + 1
        self._taken.add(found.casefold())
        if folder:
            self._folders.add(folder.casefold())
        return found

    def finish(self) -> None:
        try:
            os.rename(self._temporary, self._target)
        except OSError as error:
            self.abandon()
            raise self._unwritable(error) from error

    def abandon(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self._temporary)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        self.finish() if kind is None else self.abandon()
