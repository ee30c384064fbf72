"""Pictures of a fitted model: its scores and its spectrum."""

from __future__ import annotations

import hashlib
import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kpca._base.errors import InputError
from kpca._base.files import write_whole
from kpca.plots._cloud import class_legend
from kpca.plots.axes import FloatArray, new_figure
from kpca.plots.embedding import EmbeddingDisplay
from kpca.plots.scree import SpectrumDisplay

if TYPE_CHECKING:
    from kpca.plots.axes import Figure


def scores(model: Any, X: Any, y: Any = None, components: Any = None, **options: Any) -> Figure:
    """Return the scores of the rows of X on two components, on one or on three.

    Parameters
    ----------
    model : a fitted model, or a pipeline that ends in one.
    X : rows to show; what `model.transform` takes.
    y : a class or a number per row; at most ten different values are classes, more numbers a scale.
    components : counted from 0; None is the first two.
    options : those of `EmbeddingDisplay.from_estimator` and its `plot`: ids, density, annotate, ax and so on.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kpca import KernelPCA, plots
    >>> X, y = load_iris(return_X_y=True)
    >>> figure = plots.scores(KernelPCA(3, kernel="rbf", gamma="median").fit(X), X, y)
    >>> figure.axes[0].get_xlabel()
    'component 1 (69.7 % of variance)'
    """
    return EmbeddingDisplay.from_estimator(model, X, y, components=components, **options).figure_


def spectrum(model: Any, **options: Any) -> Figure:
    """Return the share of variance of each component, with its certified bounds, and what they are together.

    `options` are those of `SpectrumDisplay.plot`: log, cumulative, n, ax.
    """
    return SpectrumDisplay.from_estimator(model, **options).figure_


def overview(model: Any, scores: FloatArray, labels: Any = None, *, ids: Any = None) -> Figure:
    """Return the scores on the first two components beside the spectrum.

    Parameters
    ----------
    model : a fitted model, or a pipeline that ends in one.
    scores : what `model.fit_transform` or `model.transform` returned.  # shape: (m, k)
    labels : a class or a number per row, as `y` of `plots.scores`.
    ids : what the rows are called.
    """
    figure = new_figure(11.0, 6.0)
    left, right = figure.subplots(1, 2, width_ratios=(1.75, 1.0))
    left.set_box_aspect(1)
    display = EmbeddingDisplay.from_scores(scores, labels, model=model, ids=ids, ax=left, legend=False)
    if display.labels is not None and display.labels.codes is not None:
        class_legend(figure, display.labels, counts=True)
    SpectrumDisplay.from_estimator(model, ax=right)
    return figure


# -- Pictures in files: whole or not at all, and the same bytes for the same picture ----------------------------------

if TYPE_CHECKING:
    from kpca.plots.axes import Figure

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
