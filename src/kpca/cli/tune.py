"""`kpca tune`: which kernel, which bandwidth, how many components."""

from __future__ import annotations

import functools
from typing import Any

import click

from kpca.cli import _model
from kpca.cli import _options as options
from kpca.cli._options import File, Options
from kpca.cli._run import MODELS, Run

_KERNELS = "Kernels to try, separated by commas; linear,rbf,poly,cosine if unsaid."
_COUNTS = "Numbers of components to choose among, such as 1,2,5; up to 64 if unsaid."
_CRITERION = "What is judged; if unsaid, knn with a label and reconstruction without."
_CRITERIA = click.Choice(["reconstruction", "knn", "parallel", "variance", "gap", "stability"])
_BUDGET = "How long it may take, such as 60s; as long as it needs if unsaid."
_BEST = "Take the best score, not the simplest model within one standard error of it."
_search = functools.partial(options.option, section="Search")


def _counts(value: str) -> Any:
    """Return numbers of components, one or several."""
    try:
        counts = [int(text) for text in options.names(value)]
    except ValueError as error:
        raise click.BadParameter("must be whole numbers separated by commas.", param_hint="--components") from error
    return counts[0] if len(counts) == 1 else counts


@options.command("Find kernel, bandwidth and number of components.", "file")
@_search("--kernels", type=options.names, metavar="NAMES", help=_KERNELS)
@options.components(section="Search", type=_counts, metavar="NUMBERS", help=_COUNTS)
@_search("--criterion", type=_CRITERIA, help=_CRITERION)
@_search("--budget", metavar="TIME", help=_BUDGET)
@_search("--bandwidths", type=int, default=15, help="How many values of gamma to try for each kernel.")
@_search("--best", is_flag=True, help=_BEST)
@options.output(help="Save the model that was chosen, fitted to all rows (.kpca).")
@options.data
def tune(*, file: str, best: bool, output: File, data: Options, run: Options, **settings: Any) -> None:
    """Find the kernel, its bandwidth and the number of components that suit the rows of FILE.

    With --label, kernels are judged by how well nearest neighbours among the scores tell labels; without, by how well
    scores restore rows that were held out.

    \b
    kpca tune flowers.csv --label species --budget 30s -o best.kpca
    """
    this = Run(run, reads=[file])
    this.will_write(output, MODELS, output="The model is")
    kernels = settings["kernels"]
    for name in kernels or ():
        _model.check_kernel(name, "kernels")
    arguments: dict[str, Any] = {"kernels": list(kernels) if kernels else None, "n_components": settings["components"]}
    arguments |= {name: settings[name] for name in ("criterion", "budget", "bandwidths")}
    arguments |= {"rule": "best" if best else "one_se", "random_state": this.seed, "refit": output is not None}
    with this.working("Reading"):
        opened, preparation, rows = _model.rows_of(this, file, data)
        this.stage("Searching")
        usual = {"bandwidths": 15, "rule": "one_se", "refit": True}
        found = this.script.call("kpca.selection.tune", *rows, to="found", usual=usual, **arguments)
        if output is not None:
            this.script.uses("sklearn.pipeline:Pipeline")
            this.script.add('model = Pipeline([("prepare", preparation), ("model", found.best_estimator)])')
            about = _model.origin(this, opened, reason=found.reason)
            _model.PreparedModel(preparation, found.best_estimator, about).save(this, output)
    this.script.add("print(found)")
    this.say(opened.sentence, found.reason)
    best_of_each: dict[str, Any] = {}
    for entry in found.table:
        best_of_each.setdefault(str(entry.get("kernel", entry["label"])), entry)
    figures = []
    for entry in best_of_each.values():
        error = "" if entry["standard_error"] is None else f"{entry['standard_error']:.4f}"
        figures.append([entry["label"], str(entry["n_components"]), f"{entry['score']:.4f}", error])
    this.table("Best of each kernel", ["kernel", "components", "score", "s.e."], figures)
    result = {"best": found.best_params, "score": found.best_score, "criterion": found.criterion}
    result |= {"reason": found.reason, "complete": found.complete, "table": found.to_dicts()}
    this.finish(data=opened.facts, **result)
