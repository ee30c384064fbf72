"""`kpca explain`, `kpca compare` and `kpca report`: what a model sees, what other methods see, and a page about it."""

from __future__ import annotations

from typing import Any

import click

from kpca.cli import _model
from kpca.cli import _options as options
from kpca.cli._options import File, Options
from kpca.cli._run import PAGES, PICTURES, Code, Run

_SHOWN_VARIABLES, _SHOWN_COMPONENTS = 15, 5
_BY = "How scores change with a column: when it changes a little, or when it is shuffled."
_WAYS = click.Choice(["gradient", "permutation"])
_METHODS = "Such as PCA,kernel PCA,t-SNE,UMAP,Isomap,MDS; all if unsaid."
_MAX_ROWS = "Rows up to which methods with n × n matrices take part."


@options.command("Tell which columns are behind the components.", "file")
@options.model(help="What kpca fit wrote; fitted to FILE if unsaid.")
@options.option("--by", section="Explanation", type=_WAYS, default="gradient", help=_BY)
@options.output(help="Write the figures of all columns; - is standard output.")
@options.picture(help="Draw the most important columns (.png, .svg or .pdf).")
@options.settings
@options.data
def explain(
    *, file: str, model: File, by: str, output: File, picture: File, settings: Options, data: Options, run: Options
) -> None:
    """Tell which columns of FILE are behind the components.

    \b
    kpca explain flowers.csv --label species --picture columns.png
    """
    from kpca.io.anomalies import importance_table

    this = Run(run, reads=[file, model], data=output)
    this.will_write_table(output, beside="column", figures="The figures are")
    this.will_write(picture, PICTURES, picture="The picture is")
    function = "kpca.explain.importance" if by == "gradient" else "kpca.explain.permutation_importance"
    extra = {} if by == "gradient" else {"random_state": this.seed}
    with this.working("Reading"):
        opened, fitted = _model.fitted_or_loaded(this, model, file, data, settings)
        this.script.add("names = list(model[0].get_feature_names_out())")
        rows = this.script.call("kpca.io:rows_in_memory", fitted.code, opened.code, to="rows", seed=this.seed)
        names = [str(name) for name in fitted.preparation.get_feature_names_out()]
        this.stage("Explaining")
        arguments = Code("model[-1]", fitted.model), Code("rows.X", rows.X)
        found = this.script.call(function, *arguments, to="found", names=Code("names", names), **extra)
        this.script.add("print(found)")
        if output is not None:
            this.script.call("kpca.io:write_importance", Code("found", found), output)
        if picture is not None:
            figure = this.script.made("kpca:plots.importance", Code("found", found))
            this.script.call("kpca:plots.save", figure, picture)
    titles, table = importance_table(found)
    headers = ["column", *titles[: 1 + _SHOWN_COMPONENTS]]
    shown = table[:, : 1 + _SHOWN_COMPONENTS]
    figures = [[names[j], *(f"{value:.3g}" for value in shown[j])] for j in found.order[:_SHOWN_VARIABLES]]
    this.say(opened.sentence, str(found).splitlines()[0])
    this.table("Columns", headers, figures, " columns", of=len(names))
    columns = {name: dict(zip(titles, row, strict=True)) for name, row in zip(names, table, strict=True)}
    this.finish(data=opened.facts, columns=columns)


@options.command("Draw the rows by many methods, and measure each.", "file")
@options.option("--methods", section="Methods", type=options.names, help=_METHODS)
@options.components(section="Methods", type=int, default=2, help="Dimensions of the maps.")
@options.option("--max-rows", section="Methods", type=int, default=5000, help=_MAX_ROWS)
@options.output(help="Write the figures of all methods; - is standard output.")
@options.picture(help="Draw the maps of all methods side by side (.png, .svg or .pdf).")
@options.data
def compare(*, file: str, output: File, picture: File, data: Options, run: Options, **settings: Any) -> None:
    """Draw the rows of FILE by many methods; tell what each takes and what it keeps.

    \b
    kpca compare flowers.csv --label species --picture maps.png
    """
    this = Run(run, reads=[file], data=output)
    this.will_write_table(output, beside="name", figures="The figures are")
    this.will_write(picture, PICTURES, picture="The picture is")
    methods, size = settings["methods"], {"n_components": settings["components"], "max_rows": settings["max_rows"]}
    arguments = {"methods": list(methods) if methods else None, **size, "random_state": this.seed}
    with this.working("Reading"):
        opened, _, rows = _model.rows_of(this, file, data)
        this.stage("Comparing")
        usual = {"n_components": 2, "max_rows": 5000, "random_state": 0}
        found = this.script.call("kpca.compare", *rows, to="found", usual=usual, **arguments)
        this.script.add("print(found)")
        if output is not None:
            this.script.call("kpca.io:write_comparison", Code("found", found), output)
        if picture is not None:
            figure = this.script.made("kpca:plots.comparison", Code("found", found), rows[1])
            this.script.call("kpca:plots.save", figure, picture)
    this.say(opened.sentence, "", str(found))
    this.finish(data=opened.facts, methods=found.to_dicts())


@options.command("Write a page about a file: a map, what is behind it, what is odd.", "file")
@options.model(help="What kpca fit or kpca tune wrote; fitted to FILE if unsaid.")
@options.output(help="Where to write the page; the name of the data with .html if unsaid.")
@options.settings
@options.data
def report(*, file: str, model: File, output: File, settings: Options, data: Options, run: Options) -> None:
    """Write a page about the rows of FILE: a map to explore, what is behind it, what is odd, how to repeat it.

    The page is one HTML file that needs no network. Of very many rows it shows a sample.

    \b
    kpca report flowers.csv --label species
    kpca report new.csv --model flowers.kpca -o new.html
    """
    from kpca.report import report_on_table

    this = Run(run, reads=[file, model])
    target = output or _model.default_output(file, ".html")
    this.will_write(target, PAGES, output="The page is")
    with this.working("Reading"):
        opened, fitted = _model.fitted_or_loaded(this, model, file, data, settings, inverse="wanted")
        this.script.add(this.script.written("kpca.report:report_on_table", fitted.code, opened.code, target))
        this.stage("Writing the page")
        known: Options = {
            "code": str(this.script),
            "command": _model.command_line(),
            "seed": this.seed,
            "about": fitted.about,
        }
        report_on_table(fitted.code.value, opened.table, target, **known)
    this.say(opened.sentence)
    _model.show_model(this, fitted)
    this.finish(data=opened.facts, model=_model.spectrum_facts(fitted.model))
