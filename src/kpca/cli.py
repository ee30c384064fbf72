"""The command `kpca`: it parses, calls and shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kpca import __version__
from kpca.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from kpca.demo import Component, Contender, Result
    from kpca.kernel_pca import KernelPCA


class _Commands(click.Group):
    """The error boundary: what a user can put right becomes one line on stderr and exit code 1, not a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except InputError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kpca")
def main() -> None:
    """Kernel PCA, exact without storing the kernel matrix."""


@main.command()
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=Path("kpca-demo.png"),
    show_default=True,
    help="Where to write the picture (.png, .svg or .pdf).",
)
@click.option("--no-picture", is_flag=True, help="Print the tables only.")
@click.option("--rows", type=int, default=None, hidden=True)
def demo(output: Path, no_picture: bool, rows: int | None) -> None:
    """Fit handwritten digits, compare with scikit-learn, draw a picture; takes some ten seconds."""
    from rich.console import Console

    from kpca import demo as demonstration

    console = Console(highlight=False)
    if not no_picture:
        demonstration.check_picture_path(output)
    X, labels = demonstration.load(demonstration.DEFAULT_ROWS if rows is None else rows)
    with console.status("Fitting ..."):
        model, scores = demonstration.fit(X)
    console.print(
        f"{len(X):,} images of handwritten digits, {X.shape[1]} pixels each; Gaussian kernel, "
        f"gamma = {model.gamma_:.3g} by the median rule; {model.n_passes_} passes over the kernel matrix."
    )
    console.print(_component_table(demonstration.components(model)))
    results: dict[Contender, Result] = {}
    for contender in demonstration.CONTENDERS:
        with console.status(f"The same fit, in a new process: {contender.name} ..."):
            results[contender] = demonstration.race(contender, len(X), float(model.gamma_))
    console.print(_race_table(results))
    if not no_picture:
        _draw(console, model, scores, labels, output)


def _component_table(rows: list[Component]) -> Table:
    table = _table(
        "Components",
        "Bounds contain the exact value; where they are wide, an eigenvalue between them may have been missed.",
        ["component", "eigenvalue", "variance", "at least", "at most", "residual"],
    )
    for row in rows:
        low, high = row.share_bounds
        table.add_row(
            str(row.number),
            f"{row.eigenvalue:.4f}",
            *(f"{100 * share:.4f} %" for share in (row.share, low, high)),
            f"{row.residual:.0e}",
        )
    return table


def _race_table(results: dict[Contender, Result]) -> Table:
    table = _table(
        "The same fit, each in a process of its own",
        "Memory above what data and imports take; differences of eigenvalues relative to the largest. "
        'From 10 components on, "auto" solves the whole matrix.',
        ["", "time", "peak memory", "differs by"],
    )
    ours = next(iter(results.values()))
    for contender, result in results.items():
        memory = "unknown" if result.peak_bytes is None else f"{result.peak_bytes / 2**20:,.0f} MiB"
        table.add_row(
            contender.name,
            f"{result.seconds:.2f} s",
            memory,
            "" if result is ours else f"{result.difference(ours):.0e}",
        )
    return table


def _table(title: str, caption: str, headers: list[str]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, caption=caption, title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD)
    table.title_style, table.caption_style = "bold", "dim"
    for header in headers:
        table.add_column(header, justify="right" if header else "left", no_wrap=True)
    return table


def _draw(console: Console, model: KernelPCA, scores: Any, labels: Any, output: Path) -> None:
    from kpca import plots

    try:
        plots.overview(model, scores, labels).savefig(output)
    except ImportError as error:
        console.print(str(error), markup=False)
    except OSError as error:  # the disk may have filled up since the path was checked
        raise click.ClickException(f"The picture could not be written to {str(output)!r}: {error.strerror}.") from error
    else:
        console.print(f"The picture is in {output}.", markup=False, soft_wrap=True)
