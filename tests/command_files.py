"""Files that the commands are tried on: the same rows as CSV, Parquet and NPY."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from click.testing import CliRunner, Result

from kpca.cli import main

KINDS = ("csv", "parquet", "npy")


@dataclass(frozen=True)
class Files:
    """A file with rows, another with new rows, and what to say so that both are read."""

    kind: str
    rows: Path
    new: Path
    roles: list[str]
    names: list[str]
    X: np.ndarray

    @property
    def labelled(self) -> bool:
        return self.kind != "npy"


def example(n: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two rings in five columns of different units, and which ring a row is on."""
    rng = np.random.default_rng(seed)
    ring = np.arange(n) % 2
    angle = rng.uniform(0, 2 * np.pi, n)
    plane = np.column_stack([np.cos(angle), np.sin(angle)]) * np.where(ring, 2.0, 0.7)[:, None]
    X = np.column_stack([plane, plane[:, 0] + 0.1 * rng.normal(size=n), rng.normal(size=(n, 2))])
    return X * [1.0, 10.0, 100.0, 1.0, 0.01] + [0.0, 5.0, 0.0, 1000.0, 0.0], ring


def write(path: Path, kind: str, X: np.ndarray, ring: np.ndarray, names: list[str]) -> None:
    ids = [f"row {number}" for number in range(len(X))]
    labels = [("inner", "outer")[int(number)] for number in ring]
    if kind == "npy":
        np.save(path, X)
    elif kind == "csv":
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["name", *names, "ring"])
            writer.writerows(
                [one, *map(repr, row.tolist()), label] for one, row, label in zip(ids, X, labels, strict=True)
            )
    else:
        columns: dict[str, Any] = {"name": ids, **dict(zip(names, X.T, strict=True)), "ring": labels}
        pyarrow.parquet.write_table(pyarrow.table(columns), path)


def ran(runner: CliRunner, *arguments: object) -> Result:
    """Run a command that must go well."""
    result = runner.invoke(main, [str(argument) for argument in arguments])
    assert result.exit_code == 0, (result.output, result.stderr, result.exception)
    return result


def answered(runner: CliRunner, *arguments: object) -> dict[str, Any]:
    """Run a command with --json, and return what it printed."""
    found: dict[str, Any] = json.loads(ran(runner, *arguments, "--json").stdout)
    return found
