"""Small grey pictures as PNG inside the page, by nothing but the standard library."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def grey_picture(values: NDArray[Any], low: float, high: float) -> str:
    """Return rows of numbers as the address of a picture: `low` is black, `high` is white."""
    span = high - low if high > low else 1.0
    levels = np.nan_to_num(np.clip((np.asarray(values, np.float64) - low) / span, 0.0, 1.0))
    return png(np.rint(255 * levels).astype(np.uint8))


def png(levels: NDArray[np.uint8]) -> str:
    """Return grey levels as a `data:` address of a PNG file."""
    height, width = levels.shape
    lines = np.zeros((height, width + 1), dtype=np.uint8)  # each begins with the number of its filter, 0
    lines[:, 1:] = levels
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    file = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
    return "data:image/png;base64," + base64.b64encode(file + _chunk(b"IEND", b"")).decode("ascii")


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
