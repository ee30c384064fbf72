"""`kpca demo`: what a user sees first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kpca._base.errors import InputError
from kpca.cli._command import SectionedCommand
from kpca.cli._options import RunOptions, extra_option, run_options

if TYPE_CHECKING:
    from kpca.cli._run import Run
    from kpca.cli.tour import Component, Contender, Result


@click.command(
    cls=SectionedCommand, short_help="A tour in a minute: fit, tune, denoise, detect, and a page to look at."
)
@extra_option(
    "Output",
    "-o",
    "--output",
    metavar="FOLDER",
    default="kpca-demo",
    show_default=True,
    help="Where to write the pictures and the page.",
)
@extra_option("Output", "--rows", type=int, default=None, hidden=True)
@run_options
def demo(*, output: str, rows: int | None, run: RunOptions) -> None:
    """Show what kernel PCA does, on data that comes with scikit-learn; takes less than a minute.

    Fits 4,000 images of digits and races scikit-learn, tunes a kernel to two rings, takes noise out of images, finds a
    wine that is none, and writes pictures and a page about the digits.
    """
    from kpca import plots
    from kpca.cli import tour
    from kpca.cli._run import Run
    from kpca.cli.tour import CONTENDERS, DEFAULT_ROWS, components, fit, load, race

    this, folder = Run(run), Path(output)
    X, labels = load(DEFAULT_ROWS if rows is None else rows)
    _make(folder)
    with this.working("Fitting"):
        model, scores = fit(X)
        plots.save(plots.overview(model, scores, labels), folder / "map.png")
        results: dict[Contender, Result] = {}
        for contender in CONTENDERS:
            this.stage(f"The same fit in a new process: {contender.name}")
            results[contender] = race(contender, len(X), float(model.gamma_))
    this.say(
        f"1. Fit. {len(X):,} images of handwritten digits, {X.shape[1]} pixels each; Gaussian kernel, gamma = "
        f"{model.gamma_:.3g} by the median rule; {model.n_passes_} passes over the kernel matrix."
    )
    _show_components(this, components(model))
    _show_race(this, results)
    with this.working("Tuning"):
        reason = tour.choose()
    this.say(f"2. Tune. Two rings, one inside the other: {reason}", "")
    with this.working("Denoising"):
        cleaned = tour.clean()
        names = ["as it was", "with noise", "cleaned"]
        figure = plots.gallery(cleaned.rows(), tour.IMAGE_SHAPE, rows=names, limits=(0.0, 1.0), inverted=True)
        plots.save(figure, folder / "denoised.png")
    this.say(
        f"3. Denoise. Images of digits with noise: mean squared error {cleaned.error_before:.3f} before, "
        f"{cleaned.error_after:.3f} after; PCA reaches {cleaned.error_of_pca:.3f} at best.",
        "",
    )
    with this.working("Watching"):
        odd = tour.watch()
    this.say(
        f"4. Detect. A wine with {odd.changed} {odd.value:g}, which others have, too, but not wines like it: statistic "
        f"{odd.statistic:.0f}, the limit is {odd.limit:.0f}; most of it comes from {odd.found}.",
        "",
    )
    with this.working("Writing the page"):
        tour.write_page(folder / "report.html")
    this.say(
        f"5. Look. The page about the digits is {folder / 'report.html'}: open it in a browser.",
        f"   Pictures are in {folder / 'map.png'} and {folder / 'denoised.png'}.",
    )
    result: dict[str, Any] = {
        "command": "demo",
        "rows": len(X),
        "eigenvalues": model.eigenvalues_,
        "race": {contender.name: vars(found) for contender, found in results.items()},
        "tuned": reason,
        "errors": {"noisy": cleaned.error_before, "cleaned": cleaned.error_after, "pca": cleaned.error_of_pca},
        "odd": vars(odd),
        "outputs": {name: str(folder / name) for name in ("report.html", "map.png", "denoised.png")},
    }
    this.finish(result, _CODE)


_CODE = """from kpca import demo, tour

X, labels = demo.load()
model, scores = demo.fit(X)
print(tour.choose(), tour.clean(), tour.watch(), sep="\\n")
"""


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(
            f"The folder {str(folder)!r} must be one that can be made; the system says {error.strerror!r}: give "
            "another one with --output."
        ) from error


def _show_components(this: Run, rows: list[Component]) -> None:
    lines = [
        [
            str(row.number),
            f"{row.eigenvalue:.4f}",
            *(f"{100 * share:.4f} %" for share in (row.share, *row.share_bounds)),
            f"{row.residual:.0e}",
        ]
        for row in rows
    ]
    headers = ["component", "eigenvalue", "variance", "at least", "at most", "residual"]
    caption = "Bounds contain the exact value; where they are wide, an eigenvalue between them may have been missed."
    this.table("Components", headers, lines, caption)


def _show_race(this: Run, results: dict[Contender, Result]) -> None:
    ours = next(iter(results.values()))
    lines = [
        [
            contender.name,
            f"{result.seconds:.2f} s",
            "unknown" if result.peak_bytes is None else f"{result.peak_bytes / 2**20:,.0f} MiB",
            "" if result is ours else f"{result.difference(ours):.0e}",
        ]
        for contender, result in results.items()
    ]
    caption = (
        "Memory above what data and imports take; differences of eigenvalues relative to the largest. From 10 "
        'components on, "auto" solves the whole matrix.'
    )
    this.table("The same fit, each in a process of its own", ["", "time", "peak memory", "differs by"], lines, caption)
