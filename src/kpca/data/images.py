"""Pictures in files, as grey levels. The only file that knows Pillow."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kpca._base.errors import InputError, Setting
from kpca._base.files import temporary_name
from kpca.data.arrays import MatrixReader
from kpca.data.formats import feed
from kpca.data.rows import Indices

Grey = NDArray[np.float32]  # levels from 0 (black) to 1 (white); shape: (height, width)

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".pbm", ".pnm", ".webp")
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "PPM", "WEBP")  # by content: no format that runs other programs


def _pillow(doing: str) -> Any:
    try:
        import PIL
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise InputError(f"{doing} images needs pillow: pip install 'kpca[images]'.") from error
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
    except InputError:
        raise
    except (pil.Image.DecompressionBombWarning, pil.Image.DecompressionBombError) as error:
        most = pil.Image.MAX_IMAGE_PIXELS
        raise InputError(f"{path!r} must have at most {most:,} pixels; it claims to have more: shrink it.") from error
    except pil.UnidentifiedImageError as error:
        raise InputError(f"{path!r} must be an image, as its name says; it is none: remove it.") from error
    except FileNotFoundError as error:
        raise InputError(f"{path!r} must stay where it is while it is read; it is gone.") from error
    except PermissionError as error:
        raise InputError(f"{path!r} must be readable; there is no permission to read it.") from error
    except MemoryError:
        raise
    except Exception as error:  # decoders raise what they like: SyntaxError, struct.error, zlib.error, IndexError
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise InputError(f"{path!r} must be a whole image; it cannot be read ({reason}): write it again.") from error
    if size is None or levels.shape == size:
        return levels
    height, width = size
    picture = pil.Image.fromarray(levels).resize((width, height), pil.Image.Resampling.BILINEAR)
    return np.clip(np.asarray(picture, dtype=np.float32), 0.0, 1.0)


def _levels(pil: Any, image: Any, path: str) -> Grey:
    """Return the grey levels of an open picture."""
    mode = image.mode
    if mode.startswith("I") or mode == "F":
        return _deep_levels(image, path)
    if mode in ("LA", "La", "PA", "RGBA", "RGBa") or "transparency" in image.info:
        coloured = image.convert("RGBA")
        paper = pil.Image.new("RGBA", coloured.size, (255, 255, 255, 255))
        image = pil.Image.alpha_composite(paper, coloured)
    if image.mode not in ("1", "L", "RGB"):
        image = image.convert("RGB")  # palettes, CMYK, YCbCr
    return np.asarray(image.convert("L"), dtype=np.float32) / np.float32(255)


def _deep_levels(image: Any, path: str) -> Grey:
    """Return the levels of a picture of 16 bits, or of floats from 0 to 1."""
    values = np.asarray(image)
    most = 1.0 if image.mode == "F" else 65535.0
    if not (np.isfinite(values).all() and values.min() >= 0 and values.max() <= most):
        raise InputError(f"{path!r} must have grey levels from 0 to {most:g}; it has others: save it with 8 bits.")
    return (values / most).astype(np.float32)


def write_png(path: str, levels: NDArray[Any]) -> None:
    """Write grey levels from 0 to 1 as a PNG of 8 bits; what lies beyond is cut off."""
    pil = _pillow("Writing")
    bytes_ = np.rint(np.clip(levels, 0.0, 1.0) * 255).astype(np.uint8)
    with open(path, "xb") as file:
        pil.Image.fromarray(bytes_).save(file, format="PNG")


# -- A folder of pictures as a table, a row of grey levels for each; and rows back to pictures ------------------------

_LONGEST_NAME = 200  # bytes of the name of a file that is written; file systems stop at 255
_MOST_PIXELS = 1 << 22  # each is a column with a name


@dataclass(frozen=True)
class _Picture:
    path: str
    id: str  # the name within the folder
    label: str | None  # the subfolder


def _checked_size(size: Any) -> tuple[int, int]:
    whole = isinstance(size, tuple | list) and [isinstance(side, int | np.integer) for side in size] == [True, True]
    if not whole or min(size) < 1 or size[0] * size[1] > _MOST_PIXELS:
        must = f"must be (height, width), whole numbers from 1, {_MOST_PIXELS:,} pixels at most"
        raise InputError(must, param="size", value=size)
    return int(size[0]), int(size[1])


def _pictures(folder: str) -> tuple[list[_Picture], int]:
    """Return the pictures of a folder and of the folders in it, in the order of their names; and how many others."""
    found: list[_Picture] = []
    others = 0
    for entry in _entries(folder):
        label = _as_text(entry.name) if _leads_to(entry.is_dir) else None
        for inner in [entry] if label is None else _entries(entry.path):
            name = _as_text(inner.name)
            if _is_picture(inner):
                found.append(_Picture(inner.path, name if label is None else f"{label}/{name}", label))
            else:
                others += 1
    return sorted(found, key=lambda picture: picture.id), others


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise InputError(f"{folder!r} must be a folder that can be read; it cannot ({error.strerror}).") from error


def _as_text(name: str) -> str:
    """Return the name of a file as a text that can be written anywhere, also where its bytes are no Unicode."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _is_picture(entry: os.DirEntry[str]) -> bool:
    return entry.name.lower().endswith(SUFFIXES) and _leads_to(entry.is_file)


def _leads_to(question: Callable[[], bool]) -> bool:
    """Whether it is so; a link to itself, or into a folder that is closed, leads nowhere."""
    try:
        return question()
    except OSError:
        return False


class ImageReader(MatrixReader):
    """A folder of pictures: PNG, JPEG, BMP, GIF (the first frame), TIFF, PGM or WebP, known by their suffix.

    A row holds the grey levels of a picture, from 0 (black) to 1 (white), line by line, as float32. Rows go by name;
    the pictures of subfolders, one level down, come with them, and have the name of the subfolder as label. All must
    be of one size, or `size` = (height, width) be given, to which they are resized. They are read when their rows are
    asked for.
    """

    dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(self, path: str, size: tuple[int, int] | None = None) -> None:
        self._resized = None if size is None else _checked_size(size)
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
                remedy=("give a smaller ", Setting("size"), " (height, width)"),
            )
        self.image_shape: tuple[int, int] = (int(height), int(width))
        self.n_rows, self.n_columns = len(self._pictures), height * width
        self.names = [f"pixel {row},{column}" for row in range(height) for column in range(width)]
        self.sides, self.beside = {"file": partial(self._told, "id")}, {"id": "file"}
        if any(picture.label is not None for picture in self._pictures):
            self.sides["folder"] = partial(self._told, "label")
            self.beside["label"] = "folder"

    def _told(self, what: str) -> NDArray[Any]:
        return np.array([getattr(picture, what) for picture in self._pictures], dtype=object)

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
                    remedy=("resize it, or give a ", Setting("size"), " (height, width)"),
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
        if os.path.isdir(self._target) and not os.listdir(self._target):
            pass  # a rename replaces an empty folder
        elif os.path.lexists(self._target):
            raise InputError(f"{self._target!r} must be a new folder; there is something of that name: choose another.")
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
        for position, levels in enumerate(rows):
            name = self._name(f"{self._done:06d}" if ids is None else str(ids[position]))
            path = os.path.join(self._temporary, name)
            try:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                write_png(path, levels.reshape(height, width))
            except OSError as error:
                raise self._unwritable(error) from error
            self._done += 1

    def _unwritable(self, error: OSError) -> InputError:
        return InputError(f"{self._target!r} must be a folder that can be written; it cannot ({error.strerror}).")

    def _name(self, id: str) -> str:
        """Return an unused path below the folder, at most one level down, that ends in .png."""
        parts = [part for part in id.replace("\\", "/").split("/") if part not in ("", ".", "..")][-2:]
        parts = [_file_name(part) for part in parts] or ["_"]
        stem, suffix = os.path.splitext(parts[-1])
        stem = stem if suffix.lower() in SUFFIXES else parts[-1]
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
        if kind is None:
            self.finish()
        else:
            self.abandon()


def _file_name(text: str) -> str:
    """Return a text as the name of a file that every system takes and none hides."""
    plain = "".join(letter if letter.isprintable() and letter not in '<>:"|?*' else "_" for letter in text)
    return plain.encode()[:_LONGEST_NAME].decode(errors="ignore").lstrip(".") or "_"
