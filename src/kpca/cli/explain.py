"""`kpca explain` and `kpca compare`: what a model sees, and what other methods see."""

from __future__ import annotations

from typing import Any

import click

from kpca.cli._code import Script, Source, call
from kpca.cli._command import SectionedCommand, check_standard_input, stdout_is_taken
from kpca.cli._options import (
    DataOptions,
    ModelOptions,
    NameList,
    RunOptions,
    data_options,
    extra_option,
    model_options,
    output_option,
    picture_option,
    run_options,
)

_SHOWN_VARIABLES, _SHOWN_COMPONENTS = 15, 5


@click.command(cls=SectionedCommand, short_help="Tell which columns are behind the components.")
@click.argument("file")
@extra_option("Model", "--model", metavar="FILE", help="What kpca fit wrote; fitted to FILE if unsaid.")
@extra_option(
    "Explanation",
    "--by",
    type=click.Choice(["gradient", "permutation"]),
    default="gradient",
    show_default=True,
    help="How scores change with a column: when it changes a little, or when it is shuffled.",
)
@output_option("Write the figures of all columns; - is standard output.")
@picture_option("Draw the most important columns")
@model_options
@data_options
@run_options
def explain(
    *,
    file: str,
    model: str | None,
    by: str,
    output: str | None,
    picture: str | None,
    settings: ModelOptions,
    data: DataOptions,
    run: RunOptions,
) -> None:
    """Tell which columns of FILE are behind the components.

    \b
    kpca explain flowers.csv --label species --picture columns.png
    """
    from kpca.cli import _model
    from kpca.cli._outputs import PICTURES, check_output, check_table_output, where
    from kpca.cli._run import Run
    from kpca.explain import importance, permutation_importance
    from kpca.io.anomalies import importance_table, write_importance
    from kpca.io.results import rows_in_memory

    check_standard_input(file, model)
    this = Run(run, taken=stdout_is_taken(output))
    check_table_output(output, inputs=[file, model], beside="column")
    check_output(picture, PICTURES)
    function: Any
    extra: dict[str, Any]
    function, extra = (importance, {}) if by == "gradient" else (permutation_importance, {"random_state": run.seed})
    with this.working("Reading"):
        ready = _model.fitted_or_loaded(this, model, file, data, settings)
        preparation, script = ready.fitted.preparation, ready.script
        rows = rows_in_memory(preparation, ready.data.table, seed=run.seed)
        names = [str(name) for name in preparation.get_feature_names_out()]
        this.stage("Explaining")
        found: Any = function(ready.fitted.model, rows.X, names=names, **extra)
        if output is not None:
            write_importance(found, output)
        if picture is not None:
            from kpca import plots

            plots.save(plots.importance(found), picture)
    titles, table = importance_table(found)
    order = found.order[:_SHOWN_VARIABLES]
    this.say(ready.data.sentence, str(found).splitlines()[0])
    this.table(
        "Columns",
        ["column", *titles[: 1 + _SHOWN_COMPONENTS]],
        [[names[j], *(f"{value:.3g}" for value in table[j, : 1 + _SHOWN_COMPONENTS])] for j in order],
        f"... and {len(names) - len(order):,} more columns" if len(names) > len(order) else "",
    )
    this.say(*where({"The figures are": output, "The picture is": picture}))
    script.add("names = list(model[0].get_feature_names_out())")
    script.needs("from kpca.io import rows_in_memory")
    script.add(f"rows = {call('rows_in_memory', Source('model'), Source('table'), seed=run.seed)}")
    arguments = (Source("model[-1]"), Source("rows.X"))
    made = call(f"kpca.explain.{function.__name__}", *arguments, names=Source("names"), **extra)
    script.add(f"found = {made}", "print(found)")
    _output_code(script, "write_importance", output, "plots.importance(found)", picture)
    figures = {name: dict(zip(titles, row, strict=True)) for name, row in zip(names, table, strict=True)}
    outputs = {k: v for k, v in {"figures": output, "picture": picture}.items() if v}
    this.finish({"command": "explain", "data": ready.data.facts, "columns": figures, "outputs": outputs}, str(script))


def _output_code(script: Script, writer: str, output: str | None, figure: str, picture: str | None) -> None:
    """Add the lines that write the figures and draw them."""
    if output is not None:
        script.needs(f"from kpca.io import {writer}")
        script.add(call(writer, Source("found"), output))
    if picture is not None:
        script.needs("from kpca import plots")
        script.add(call("plots.save", Source(figure), picture))


@click.command(cls=SectionedCommand, short_help="Draw the rows by many methods, and measure each.")
@click.argument("file")
@extra_option(
    "Methods", "--methods", type=NameList(), help="Such as PCA,kernel PCA,t-SNE,UMAP,Isomap,MDS; all if unsaid."
)
@extra_option(
    "Methods",
    "-k",
    "--components",
    stands_for=("n_components",),
    type=int,
    default=2,
    show_default=True,
    help="Dimensions of the maps.",
)
@extra_option(
    "Methods",
    "--max-rows",
    type=int,
    default=5000,
    show_default=True,
    help="Rows up to which methods with n × n matrices take part.",
)
@output_option("Write the figures of all methods; - is standard output.")
@picture_option("Draw the maps of all methods side by side")
@data_options
@run_options
def compare(
    *,
    file: str,
    methods: tuple[str, ...] | None,
    components: int,
    max_rows: int,
    output: str | None,
    picture: str | None,
    data: DataOptions,
    run: RunOptions,
) -> None:
    """Draw the rows of FILE by many methods; tell what each takes and what it keeps.

    \b
    kpca compare flowers.csv --label species --picture maps.png
    """
    from kpca.cli import _model
    from kpca.cli._outputs import PICTURES, check_output, check_table_output, where
    from kpca.cli._run import Run
    from kpca.comparison import compare as embed
    from kpca.io.anomalies import write_comparison

    this = Run(run, taken=stdout_is_taken(output))
    check_table_output(output, inputs=[file], beside="name")
    check_output(picture, PICTURES)
    arguments: dict[str, Any] = {"methods": list(methods) if methods else None, "n_components": components}
    arguments |= {"max_rows": max_rows, "random_state": run.seed}
    with this.working("Reading"):
        opened, _, rows, script = _model.rows_of(this, file, data)
        this.stage("Comparing")
        found = embed(rows.X, rows.labels, **arguments)
        if output is not None:
            write_comparison(found, output)
        if picture is not None:
            from kpca import plots

            plots.save(plots.comparison(found, rows.labels), picture)
    this.say(opened.sentence, "", str(found))
    this.say(*where({"The figures are": output, "The picture is": picture}))
    usual = {"methods": None, "n_components": 2, "max_rows": 5000, "random_state": 0}
    given = {name: value for name, value in arguments.items() if value != usual[name]}
    script.add(f"found = {call('kpca.compare', Source('rows.X'), Source('rows.labels'), **given)}", "print(found)")
    _output_code(script, "write_comparison", output, "plots.comparison(found, rows.labels)", picture)
    outputs = {k: v for k, v in {"figures": output, "picture": picture}.items() if v}
    result = {"command": "compare", "data": opened.facts, "methods": found.to_dicts(), "outputs": outputs}
    this.finish(result, str(script))
