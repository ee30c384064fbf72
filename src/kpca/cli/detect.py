"""`kpca detect`: rows that do not belong."""

from __future__ import annotations

import functools
from typing import Any

import click

from kpca.cli import _model
from kpca.cli import _options as options
from kpca.cli._command import check_settled
from kpca.cli._options import File, Options
from kpca.cli._run import MODELS, PICTURES, Code, Run

_NAMES = {"combined": "T² and SPE combined", "spe": "SPE", "t2": "T²"}
_USUAL = {"confidence": 0.95, "statistic": "combined", "lags": 0, "kernel": "rbf", "gamma": "wide", "scale": "standard"}
_CONFIDENCE = "Share of normal rows that is to stay within the limit."
_STATISTIC = "What rows are judged by: distance within the components (t2), from them (spe), or both."
_LAGS = "How many rows before a row it is judged with, where rows are in the order of time."
_COMPONENTS = "How many components; below 1, as many as hold that share of the variance."
_GAMMA = "Coefficient of the kernel; wide sees breaks of linear relations, too."
_GAMMAS = options.number_or("wide", "median", "scale")
_option = functools.partial(options.option, section="Model")


@options.command("Find the rows that do not belong, and because of what.", "file")
@options.model(help="A detector that was saved by --save; fitted anew if unsaid.")
@_option("--normal", metavar="FILE", help="Rows to learn from what is normal; those of FILE if unsaid.")
@_option("--save", metavar="FILE", help="Save the detector (.kpca).")
@_option("--confidence", type=float, default=0.95, help=_CONFIDENCE)
@_option("--statistic", type=click.Choice(list(_NAMES)), default="combined", help=_STATISTIC)
@_option("--lags", type=int, default=0, help=_LAGS)
@options.components(section="Model", type=options.number_or(), metavar="NUMBER", help=_COMPONENTS)
@_option("--kernel", metavar="NAME", default="rbf", help="As in kpca fit.")
@_option("--gamma", type=_GAMMAS, metavar="NUMBER|wide|median|scale", default="wide", help=_GAMMA)
@options.output(help="Write the statistics, alarms and causes of all rows; - is standard output.")
@options.picture(help="Draw the statistics with their limits (.png, .svg or .pdf).")
@options.data
def detect(*, file: str, output: File, picture: File, save: File, data: Options, run: Options, **settings: Any) -> None:
    """Find the rows of FILE that do not belong, and the columns because of which.

    What is normal is learned from the rows of FILE itself, from --normal, or comes with --model. One row in twenty is
    beyond a limit of 0.95 by chance.

    \b
    kpca detect sensors.csv --normal last-month.csv --id time -o alarms.csv --picture chart.png
    """
    model, normal = settings.pop("model"), settings.pop("normal")
    if model is not None:
        if normal is not None or save is not None:
            raise click.UsageError("--model is a detector already: leave out --normal and --save.")
        check_settled()
    this = Run(run, reads=[file, normal, model], data=output)
    this.will_write_table(output, beside="alarm", rows="The statistics are")
    this.will_write(save, MODELS, detector="The detector is")
    this.will_write(picture, PICTURES, picture="The picture is")
    with this.working("Reading"):
        if model is not None:
            opened, fitted = _model.loaded(this, model, file, data, wanted="detector")
        else:
            opened, fitted = _learned(this, normal or file, data, settings)
            if save is not None:
                fitted.save(this, save)
        if normal is not None:
            opened = _model.open_for(this, file, data, fitted)
        this.stage("Judging rows")
        found = this.script.call("kpca.io:write_anomalies", fitted.code, opened.code, output, to="found")
        if picture is not None:
            limits = Code("model[-1].limits_", fitted.model.limits_)
            chart = this.script.made("kpca:plots.control_chart", Code("found.statistics", found.statistics), limits)
            this.script.call("kpca:plots.save", chart, picture)
    this.say(opened.sentence)
    share, verb = 100 * found.beyond / max(found.rows, 1), "is" if found.beyond == 1 else "are"
    this.say(
        f"{found.beyond:,} of {found.rows:,} rows ({share:.1f} %) {verb} beyond the limit of {found.limit:.4g} "
        f"({_NAMES[found.statistic]}, {100 * fitted.model.limits_.confidence:g} % of normal rows are to stay below)."
    )
    beside = [name for name in (opened.table.layout.id, opened.table.layout.label) if name is not None]
    rows = []
    for entry in found.top:
        known = [str(entry[name]) for name in ("row", *beside)]
        rows.append([*known, f"{entry[found.statistic]:.4g}", ", ".join(entry["causes"])])
    this.table("Farthest rows", ["row", *beside, "statistic", "because of"], rows, " rows", of=found.beyond)
    facts = {name: getattr(found, name) for name in ("rows", "beyond", "statistic", "limit", "top")}
    this.finish(data=opened.facts, **facts)


def _learned(this: Run, path: str, options: Options, settings: Options) -> tuple[_model.Data, _model.PreparedModel]:
    """Return a detector that has learned from the rows of a file what is normal."""
    _model.check_kernel(settings["kernel"])
    arguments = {"n_components": settings.pop("components"), **settings}
    data, scale = _model.open_data(this, path, options), "none"
    if data.scale != "standard":  # the detector standardises columns itself; another way comes before
        arguments["scale"], scale = None, data.scale
    detector = this.script.made("kpca.KernelPCADetector", usual=_USUAL, **arguments, random_state=this.seed)
    return data, _model.fitted_to(this, data, *_model.treated_rows(this, data, scale), detector)
