"""`kpca detect`: rows that do not belong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kpca.cli._code import Source, call, changed
from kpca.cli._command import SectionedCommand, check_settled, check_standard_input, stdout_is_taken
from kpca.cli._options import (
    DataOptions,
    NumberOr,
    RunOptions,
    data_options,
    extra_option,
    output_option,
    picture_option,
    run_options,
)

if TYPE_CHECKING:
    from kpca.cli._run import Run
    from kpca.data.rows import Layout
    from kpca.io.anomalies import Anomalies


@click.command(cls=SectionedCommand, short_help="Find the rows that do not belong, and because of what.")
@click.argument("file")
@extra_option("Model", "--model", metavar="FILE", help="A detector that was saved by --save; fitted anew if unsaid.")
@extra_option("Model", "--normal", metavar="FILE", help="Rows to learn from what is normal; those of FILE if unsaid.")
@extra_option("Model", "--save", metavar="FILE", help="Save the detector (.kpca).")
@extra_option(
    "Model",
    "--confidence",
    type=float,
    default=0.95,
    show_default=True,
    help="Share of normal rows that is to stay within the limit.",
)
@extra_option(
    "Model",
    "--statistic",
    type=click.Choice(["combined", "spe", "t2"]),
    default="combined",
    show_default=True,
    help="What rows are judged by: distance within the components (t2), from them (spe), or both.",
)
@extra_option(
    "Model",
    "--lags",
    type=int,
    default=0,
    show_default=True,
    help="How many rows before a row it is judged with, where rows are in the order of time.",
)
@extra_option(
    "Model",
    "-k",
    "--components",
    stands_for=("n_components",),
    type=NumberOr(),
    metavar="NUMBER",
    default=None,
    help="How many components; below 1, as many as hold that share of the variance.",
)
@extra_option("Model", "--kernel", metavar="NAME", default="rbf", show_default=True, help="As in kpca fit.")
@extra_option(
    "Model",
    "--gamma",
    type=NumberOr("wide", "median", "scale"),
    metavar="NUMBER|wide|median|scale",
    default="wide",
    show_default=True,
    help="Coefficient of the kernel; wide sees breaks of linear relations, too.",
)
@output_option("Write the statistics, alarms and causes of all rows; - is standard output.")
@picture_option("Draw the statistics with their limits")
@data_options
@run_options
def detect(
    *,
    file: str,
    model: str | None,
    normal: str | None,
    save: str | None,
    output: str | None,
    picture: str | None,
    data: DataOptions,
    run: RunOptions,
    **settings: Any,
) -> None:
    """Find the rows of FILE that do not belong, and the columns because of which.

    What is normal is learned from the rows of FILE itself, from --normal, or comes with --model. One row in twenty is
    beyond a limit of 0.95 by chance.

    \b
    kpca detect sensors.csv --normal last-month.csv --id time -o alarms.csv --picture chart.png
    """
    from kpca import save as save_model
    from kpca.cli import _model
    from kpca.cli._model import opened_for
    from kpca.cli._outputs import PICTURES, check_output, check_table_output, where
    from kpca.cli._run import Run
    from kpca.io.anomalies import write_anomalies

    if model is not None and (normal is not None or save is not None):
        raise click.UsageError("--model is a detector already: leave out --normal and --save.")
    if model is not None:
        check_settled()
    check_standard_input(file, normal, model)
    this = Run(run, taken=stdout_is_taken(output))
    check_table_output(output, inputs=[file, normal, model], beside="alarm")
    check_output(save, (".kpca",))
    check_output(picture, PICTURES)
    with this.working("Reading"):
        if model is not None:
            ready = _model.loaded(this, model, file, data, wanted="detector")
        else:
            ready = _learned(this, normal or file, data, settings)
            if save is not None:
                save_model(ready.fitted.pipeline, save, about=ready.fitted.about)
                ready.script.add(call("kpca.save", Source("model"), save))
        fitted, opened, script = ready.fitted, ready.data, ready.script
        if normal is not None:
            opened = opened_for(file, data, fitted)
            opened.code(script)
        this.stage("Judging rows")
        found = write_anomalies(fitted.pipeline, opened.table, output)
        script.needs("from kpca.io import write_anomalies")
        script.add(f"found = {call('write_anomalies', Source('model'), Source('table'), output)}")
        if picture is not None:
            from kpca import plots

            plots.save(plots.control_chart(found.statistics, fitted.model.limits_), picture)
            script.needs("from kpca import plots")
            chart = Source("plots.control_chart(found.statistics, model[-1].limits_)")
            script.add(call("plots.save", chart, picture))
    this.say(opened.sentence)
    _show(this, found, opened.table.layout, fitted.model.limits_.confidence)
    this.say(*where({"The statistics are": output, "The detector is": save, "The picture is": picture}))
    outputs = {k: v for k, v in {"rows": output, "detector": save, "picture": picture}.items() if v}
    this.finish({"command": "detect", "data": opened.facts, **_facts(found), "outputs": outputs}, str(script))


_NAMES = {"combined": "T² and SPE combined", "spe": "SPE", "t2": "T²"}


def _learned(this: Any, path: str, options: DataOptions, settings: dict[str, Any]) -> Any:
    """Return a detector that has learned from the rows of a file what is normal."""
    from kpca import KernelPCADetector
    from kpca.cli import _model
    from kpca.cli._model import Data

    _model.check_kernel(settings["kernel"])
    arguments = {"n_components": settings["components"], **settings}
    del arguments["components"]
    data, scale = Data.opened(path, options), "none"
    if data.scale != "standard":  # the detector standardises columns itself; another way comes before
        arguments["scale"], scale = None, data.scale
    script = _model.started(this)
    data.code(script)
    seed = this.options.seed
    made = Source(call("kpca.KernelPCADetector", **changed(arguments, _USUAL), random_state=seed))
    _model.pipeline_code(script, data.preparation_code(script, scale=scale), made)
    detector = KernelPCADetector(**arguments, random_state=seed)
    return _model.Ready(data, _model.fitted_to(this, data, *_model.prepared(this, data, scale=scale), detector), script)


_USUAL = {
    "n_components": None,
    "confidence": 0.95,
    "statistic": "combined",
    "lags": 0,
    "kernel": "rbf",
    "gamma": "wide",
}
_USUAL |= {"scale": "standard"}


def _facts(found: Anomalies) -> dict[str, Any]:
    """Return what was found, for machines."""
    names = ("rows", "beyond", "statistic", "limit", "top")
    return {name: getattr(found, name) for name in names}


def _show(this: Run, found: Anomalies, layout: Layout, confidence: float) -> None:
    """Print how many rows are beyond the limit, and the farthest of them."""
    share, verb = 100 * found.beyond / max(found.rows, 1), "is" if found.beyond == 1 else "are"
    this.say(
        f"{found.beyond:,} of {found.rows:,} rows ({share:.1f} %) {verb} beyond the limit of {found.limit:.4g} "
        f"({_NAMES[found.statistic]}, {100 * confidence:g} % of normal rows are to stay below)."
    )
    beside = [name for name in (layout.id, layout.label) if name is not None]
    rows = [
        [
            str(entry["row"]),
            *(str(entry[name]) for name in beside),
            f"{entry[found.statistic]:.4g}",
            ", ".join(entry["causes"]),
        ]
        for entry in found.top
    ]
    more = found.beyond - len(rows)
    headers = ["row", *beside, "statistic", "because of"]
    this.table("Farthest rows", headers, rows, f"... and {more:,} more rows" if more > 0 else "")
