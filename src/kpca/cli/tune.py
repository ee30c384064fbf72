"""`kpca tune`: which kernel, which bandwidth, how many components."""

from __future__ import annotations

from typing import Any

import click

from kpca.cli import _model
from kpca.cli._command import SectionedCommand
from kpca.cli._options import (
    DataOptions,
    RunOptions,
    components_option,
    data_options,
    names,
    option,
    output_option,
    run_options,
)
from kpca.cli._run import MODEL, MODELS, Run, Source, changed


@click.command(cls=SectionedCommand, short_help="Find kernel, bandwidth and number of components.")
@click.argument("file")
@option(
    "Search",
    "--kernels",
    type=names,
    metavar="NAMES",
    help="Kernels to try, separated by commas; linear,rbf,poly,cosine if unsaid.",
)
@components_option(
    "Search", names, "Numbers of components to choose among, such as 1,2,5; up to 64 if unsaid.", metavar="NUMBERS"
)
@option(
    "Search",
    "--criterion",
    type=click.Choice(["reconstruction", "knn", "parallel", "variance", "gap", "stability"]),
    help="What is judged; if unsaid, knn with a label and reconstruction without.",
)
@option("Search", "--budget", metavar="TIME", help="How long it may take, such as 60s; as long as it needs if unsaid.")
@option("Search", "--bandwidths", type=int, default=15, help="How many values of gamma to try for each kernel.")
@option(
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
    best: bool,
    output: str | None,
    data: DataOptions,
    run: RunOptions,
    **settings: Any,
) -> None:
    """Find the kernel, its bandwidth and the number of components that suit the rows of FILE.

    With --label, kernels are judged by how well nearest neighbours among the scores tell labels; without, by how well
    scores restore rows that were held out.

    \b
    kpca tune flowers.csv --label species --budget 30s -o best.kpca
    """
    from kpca import io, selection

    this = Run(run, reads=[file])
    this.will_write(output, MODELS)
    counts = _counts(components)
    for name in kernels or ():
        _model.check_kernel(name, "kernels")
    arguments: dict[str, Any] = {"kernels": list(kernels) if kernels else None, "n_components": counts}
    arguments |= {name: settings[name] for name in ("criterion", "budget", "bandwidths")}
    arguments |= {"rule": "best" if best else "one_se", "random_state": run.seed, "refit": output is not None}
    with this.working("Reading"):
        opened, preparation, rows = _model.rows_of(this, file, data)
        this.stage("Searching")
        found = selection.tune(rows.X, rows.labels, **arguments)
        given = changed(arguments, {"bandwidths": 15, "rule": "one_se", "refit": True})
        this.script.calls("kpca.selection.tune", Source("rows.X"), Source("rows.labels"), to="found", **given)
        if output is not None:
            about = _model.origin(this, opened, reason=found.reason)
            io.save(_model.Fitted(preparation, found.best_estimator, about).pipeline, output, about=about)
            this.script.uses("sklearn.pipeline:Pipeline")
            this.script.add('model = Pipeline([("prepare", preparation), ("model", found.best_estimator)])')
            this.script.calls("kpca.save", MODEL, output)
    this.script.add("print(found)")
    this.say(opened.sentence, found.reason)
    best_of_each: dict[str, Any] = {}
    for entry in found.table:
        best_of_each.setdefault(str(entry.get("kernel", entry["label"])), entry)
    figures = [
        [
            entry["label"],
            str(entry["n_components"]),
            f"{entry['score']:.4f}",
            "" if entry["standard_error"] is None else f"{entry['standard_error']:.4f}",
        ]
        for entry in best_of_each.values()
    ]
    this.table("Best of each kernel", ["kernel", "components", "score", "s.e."], figures)
    this.say_where({"The model is": output})
    this.finish(
        data=opened.facts,
        best=found.best_params,
        score=found.best_score,
        criterion=found.criterion,
        reason=found.reason,
        complete=found.complete,
        table=found.to_dicts(),
        output=output,
    )


def _counts(given: tuple[str, ...] | None) -> Any:
    """Return numbers of components, one or several."""
    if given is None:
        return None
    try:
        counts = [int(text) for text in given]
    except ValueError as error:
        raise click.BadParameter("must be whole numbers separated by commas.", param_hint="--components") from error
    return counts[0] if len(counts) == 1 else counts
