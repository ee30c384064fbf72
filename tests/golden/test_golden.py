"""Results are those that were frozen: to the bit on a machine of the same kind, to a tolerance elsewhere."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kpca
from tests.golden import cases
from tests.golden.freeze import FOLDER, fingerprint, frozen, one_blas_thread, results_file

FILES = sorted(FOLDER.glob("results-*.json"))
# Relative to the largest entry of an array.
DOUBLE, SINGLE = 1e-6, 2e-3
# Searches for pre-images end where they are good enough, and penalties are chosen at a flat minimum.
SEARCHED = 1e-3


@cache
def first_run(name: str) -> dict[str, Any]:
    return frozen(cases.run(name))


@cache
def stored(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)  # as text NaN equals itself


def assert_same(found: dict[str, Any], expected: dict[str, Any], *, files: bool) -> None:
    """Bit by bit; files only where they were written by the same version, as they name it."""
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if files or not key.endswith("file"):
            assert as_text(found[key]) == as_text(value), key


def assert_near(found: dict[str, Any], expected: dict[str, Any], name: str) -> None:
    """To a tolerance; what is counted or named is the same."""
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        if key.endswith("file"):
            assert (found[key] == "refused") == (value == "refused"), key
        elif key.endswith("n_passes_"):
            assert abs(found[key] - value) <= 1, key
        elif isinstance(value, dict) and value["dtype"].startswith("<f"):
            assert (found[key]["dtype"], found[key]["shape"]) == (value["dtype"], value["shape"]), key
            # residuals are relative already, and nothing but rounding
            largest = 1.0 if "residuals" in key else max(found[key]["largest"], value["largest"])
            atol = tolerance(name, key, value["dtype"]) * largest
            np.testing.assert_allclose(found[key]["entries"], value["entries"], rtol=0, atol=atol, err_msg=key)
        else:
            assert found[key] == value, key


def tolerance(name: str, key: str, dtype: str) -> float:
    if dtype == "<f4" or "float32" in f"{name} {key}":
        return SINGLE
    searched = key.endswith(("inverse_transform", "denoise")) or name in ("errors", "walk")
    return SEARCHED if searched else DOUBLE


@pytest.mark.parametrize("name", [name for name in cases.CASES if name in stored(FILES[0])["cases"]])
def test_results_are_those_that_were_frozen(name: str) -> None:
    own = results_file(fingerprint())
    if own.exists() and (one_blas_thread() or name not in cases.BLAS_THREADS_OF_THE_START):
        results = stored(own)
        assert_same(first_run(name), results["cases"][name], files=results["kpca"] == kpca.__version__)
    else:
        assert_near(first_run(name), stored(FILES[0])["cases"][name], name)


@pytest.mark.parametrize("name", cases.CASES)
def test_a_second_run_gives_the_same_bits_with_any_number_of_threads(name: str) -> None:
    with kpca.config(threads=3):
        assert_same(frozen(cases.run(name)), first_run(name), files=True)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_machines_agree_to_the_tolerance(file: Path) -> None:
    results = stored(file)
    assert results_file(results["machine"]) == file
    assert file.stat().st_size < 600_000
    assert results["cases"].keys() == stored(FILES[0])["cases"].keys()
    assert (
        results["cases"].keys() <= cases.CASES.keys()
    )  # a new case, such as a new kernel's, need not be frozen at once
    for name, expected in stored(FILES[0])["cases"].items():
        assert_near(results["cases"][name], expected, name)


def test_there_are_machines_with_and_without_avx512() -> None:
    dispatched = [stored(file)["machine"]["numpy dispatches to"] for file in FILES]
    assert {"X86_V4" in names for names in dispatched} == {True, False}


def test_this_kind_of_machine_is_stored() -> None:
    if not results_file(fingerprint()).exists():
        pytest.skip("This kind of machine is not stored: results were compared to a tolerance, not to the bit.")
