"""Pictures in files, as grey levels. The only file that knows Pillow."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kpca.errors import InputError

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
    """Return the grey levels of a picture, resized to (height, width) if that is given.

    Of an animation it is the first frame; colours become their luminance, what is transparent shows white paper.
    """
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
        raise InputError(
            f"{path!r} must have grey levels from 0 to {most:g}; they are from {values.min():g} to {values.max():g}: "
            "save it with 8 or 16 bits per pixel."
        )
    return (values / most).astype(np.float32)


def write_png(path: str, levels: NDArray[Any]) -> None:
    """Write grey levels from 0 to 1 as a PNG of 8 bits; what lies beyond is cut off."""
    pil = _pillow("Writing")
    bytes_ = np.rint(np.clip(levels, 0.0, 1.0) * 255).astype(np.uint8)
    with open(path, "xb") as file:
        pil.Image.fromarray(bytes_).save(file, format="PNG")
