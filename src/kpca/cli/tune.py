"""`kpca tune`: which kernel, which bandwidth, how many components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kpca.cli._code import Source, call
from kpca.cli._command import SectionedCommand
from kpca.cli._options import DataOptions, NameList, RunOptions, data_options, extra_option, output_option, run_options

if TYPE_CHECKING:
    from kpca.cli._run import Run
    from kpca.selection import Tuning


@click.command(cls=SectionedCommand, short_help="Find kernel, bandwidth and number of components.")
@click.argument("file")
@extra_option(
    "Search",
    "--kernels",
    type=NameList(),
    metavar="NAMES",
    help="Kernels to try, separated by commas; linear,rbf,poly,cosine if unsaid.",
)
@extra_option(
    "Search",
    "-k",
    "--components",
    stands_for=("n_components",),
    type=NameList(),
    metavar="NUMBERS",
    help="Numbers of components to choose among, such as 1,2,5; up to 64 if unsaid.",
)
@extra_option(
    "Search",
    "--criterion",
    type=click.Choice(["reconstruction", "knn", "parallel", "variance", "gap", "stability"]),
    help="What is judged; if unsaid, knn with a label and reconstruction without.",
)
@extra_option(
    "Search", "--budget", metavar="TIME", help="How long it may take, such as 60s; as long as it needs if unsaid."
)
@extra_option(
    "Search",
    "--bandwidths",
    type=int,
    default=15,
    show_default=True,
    help="How many values of gamma to try for each kernel.",
)
@extra_option(
    "Search",
    "--best",
    is_flag=True,
    help="Take the best score, not the simplest model within one standard error of it.",
)
@output_option("Save the model that was chosen, fitted to all rows (.kpca).")
@data_options
@run_options
def tune(
    *,
    file: str,
    kernels: tuple[str, ...] | None,
    components: tuple[str, ...] | None,
    criterion: str | None,
    budget: str | None,
    bandwidths: int,
    best: bool,
    output: str | None,
    data: DataOptions,
    run: RunOptions,
) -> None:
    """Find the kernel, its bandwidth and the number of components that suit the rows of FILE.

    With --label, kernels are judged by how well nearest neighbours among the scores tell labels; without, by how well
    scores restore rows that were held out.

    \b
    kpca tune flowers.csv --label species --budget 30s -o best.kpca
    """
    from kpca import save
    from kpca.cli import _model
    from kpca.cli._outputs import check_output, where
    from kpca.cli._run import Run
    from kpca.selection import tune as search

    this = Run(run)
    check_output(output, (".kpca",))
    counts = _counts(components)
    for name in kernels or ():
        _model.check_kernel(name, "--kernels")
    arguments: dict[str, Any] = {
        "kernels": list(kernels) if kernels else None,
        "n_components": counts,
        "criterion": criterion,
        "budget": budget,
        "bandwidths": bandwidths,
        "rule": "best" if best else "one_se",
        "random_state": run.seed,
        "refit": output is not None,
    }
    with this.working("Reading"):
        opened, preparation, rows, script = _model.rows_of(this, file, data)
        this.stage("Searching")
        found = search(rows.X, rows.labels, **arguments)
        if output is not None:
            about = {"data": opened.facts, "seed": run.seed, "command": _model.command_line(), "reason": found.reason}
            save(_model.Fitted(preparation, found.best_estimator, about).pipeline, output, about=about)
    this.say(opened.sentence, found.reason)
    _show(this, found)
    this.say(*where({"The model is": output}))
    given = {name: value for name, value in arguments.items() if value != _USUAL.get(name)}
    script.add(f"found = {call('kpca.selection.tune', Source('rows.X'), Source('rows.labels'), **given)}")
    if output is not None:
        script.needs("from sklearn.pipeline import Pipeline")
        script.add('model = Pipeline([("prepare", preparation), ("model", found.best_estimator)])')
        script.add(call("kpca.save", Source("model"), output))
    script.add("print(found)")
    this.finish({"command": "tune", "data": opened.facts, **_facts(found), "output": output}, str(script))


_USUAL = {"kernels": None, "n_components": None, "criterion": None, "budget": None, "bandwidths": 15, "rule": "one_se"}
_USUAL |= {"refit": True}


def _show(this: Run, found: Tuning) -> None:
    """Print the best of each kind of kernel."""
    shown = [
        [
            entry["label"],
            str(entry["n_components"]),
            f"{entry['score']:.4f}",
            "" if entry["standard_error"] is None else f"{entry['standard_error']:.4f}",
        ]
        for entry in _distinct(found.table)
    ]
    this.table("Best of each kernel", ["kernel", "components", "score", "s.e."], shown)


def _facts(found: Tuning) -> dict[str, Any]:
    """Return what was found, for machines."""
    return {
        "best": found.best_params,
        "score": found.best_score,
        "criterion": found.criterion,
        "reason": found.reason,
        "complete": found.complete,
        "table": found.to_dicts(),
    }


def _counts(given: tuple[str, ...] | None) -> Any:
    """Return numbers of components, one or several."""
    if given is None:
        return None
    try:
        counts = [int(text) for text in given]
    except ValueError as error:
        raise click.BadParameter("must be whole numbers separated by commas.", param_hint="--components") from error
    return counts[0] if len(counts) == 1 else counts


def _distinct(table: Any) -> list[Any]:
    """Return the best entry of each kind of kernel."""
    found: dict[str, Any] = {}
    for entry in table:
        found.setdefault(str(entry.get("kernel", entry["label"])), entry)
    return list(found.values())
