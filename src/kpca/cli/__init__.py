"""The command `kpca`: it parses, calls and shows. Everything it does can be done from Python; --show-code tells how."""

from __future__ import annotations

import click

from kpca import __version__
from kpca.cli._command import CONTEXT, Commands
from kpca.cli.detect import detect
from kpca.cli.explain import compare, explain, report
from kpca.cli.fit import denoise, fit, reconstruct, transform
from kpca.cli.info import demo, export, info
from kpca.cli.tune import tune

_EPILOG = """\b
Exit codes: 0 all went well; 2 a file or an option must be put right; 1 anything else.
NO_COLOR=1 turns colours off. Completion: eval "$(_KPCA_COMPLETE=bash_source kpca)" (or zsh_source, fish_source).
"""


@click.group(cls=Commands, context_settings=CONTEXT, epilog=_EPILOG)
@click.version_option(__version__, "-V", "--version", prog_name="kpca")
def main() -> None:
    """Kernel PCA of your file: a map of its rows, the columns behind it, the rows that do not belong.

    \b
    kpca report flowers.csv --label species     a page to look at, in one step
    kpca fit flowers.csv -k 5                   a model, for the commands below
    kpca transform new.csv --model flowers.kpca

    Every command has --help with examples.
    """


for _command in (report, fit, transform, denoise, reconstruct, tune, explain, detect, compare, info, export, demo):
    main.add_command(_command)


def run() -> None:
    """Run the command as a program; an interrupt that comes while another is dealt with ends it in the same way."""
    try:
        main(prog_name="kpca")
    except KeyboardInterrupt:
        raise SystemExit(1) from None
