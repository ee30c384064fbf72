"""Pictures in files: whole or not at all, and the same bytes for the same picture."""

from __future__ import annotations

import hashlib
import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kpca.errors import InputError
from kpca.sinks import write_whole

if TYPE_CHECKING:
    from kpca.plots._axes import Figure

FORMATS = (".png", ".svg", ".pdf")
# What matplotlib writes into files besides the picture: dates and versions, which change from run to run.
_METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_IDENTIFIER = re.compile(r'\bid="([A-Za-z]{0,4}[0-9a-f]{10})"')


def save(figure: Figure, path: str | os.PathLike[str], *, resolution: int = 150) -> None:
    """Write a picture to a .png, .svg or .pdf file; an error leaves what was there as it was.

    Parameters
    ----------
    figure : what a function here returned, or `figure_` of a display.
    path : its ending says the format.
    resolution : pixels per inch of a .png, and of the dots in other formats.

    Examples
    --------
    >>> import tempfile
    >>> from kpca import plots
    >>> figure = plots.SpectrumDisplay.from_eigenvalues([3.0, 1.0], total=5.0).figure_
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plots.save(figure, f"{folder}/spectrum.svg")
    """
    if not hasattr(figure, "savefig"):
        got = " (a display has it as figure_)" if hasattr(figure, "figure_") else ""
        raise InputError(f"figure must be a matplotlib figure; got {type(figure).__name__}{got}.")
    target = Path(os.fspath(path))
    ending = target.suffix.lower()
    if ending not in FORMATS:
        raise InputError(f"The name of the picture must end in {', '.join(FORMATS)}; got {str(target)!r}.")
    if isinstance(resolution, bool) or not isinstance(resolution, int) or not 20 <= resolution <= 2400:
        raise InputError(f"resolution must be a whole number of pixels per inch, 20 to 2400; got {resolution!r}.")
    drawn = _drawn(figure, ending, resolution)
    write_whole(target, drawn)


def _drawn(figure: Figure, ending: str, resolution: int) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending[1:], dpi=resolution, metadata=_METADATA[ending])
    found = buffer.getvalue()
    return _renamed(found) if ending == ".svg" else found


def _renamed(document: bytes) -> bytes:
    """Return an SVG whose identifiers depend on what it shows, and not on chance.

    Two pictures on one page have different ones; a setting of matplotlib could do it too, but for all its users.
    """
    text = document.decode("utf-8")
    number = {name: f"{order:x}" for order, name in enumerate(dict.fromkeys(_IDENTIFIER.findall(text)))}
    if not number:
        return document
    any_of_them = re.compile(rf"\b({'|'.join(map(re.escape, number))})\b")
    numbered = any_of_them.sub(lambda found: f"\0{number[found[1]]}\0", text)
    digest = hashlib.sha256(numbered.encode("utf-8")).hexdigest()[:8]
    return re.sub("\0([0-9a-f]+)\0", lambda found: f"i{digest}-{found[1]}", numbered).encode("utf-8")
