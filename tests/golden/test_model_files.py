"""Files that were shipped load for ever, and give what they gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kpca.io import load, read_about, save
from kpca.io.portable.registry import ROWS
from tests.golden import make_models

FILES = sorted(make_models.FOLDER.glob("*.kpca"))
# Relative to the largest number; searches for pre-images end where they are good enough.
TOLERANCE = {"inverse": 1e-3, "denoised": 1e-3}
USUAL, SINGLE = 1e-6, 1e-4


def tags_in(file: Path) -> set[str]:
    """Return the kinds of things in a file; read by hand, as this layout is for ever."""
    content = file.read_bytes()
    length = int.from_bytes(content[8:16], "little")
    return {node["is"] for node in json.loads(content[16 : 16 + length])["objects"]}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_gives_what_it_gave(file: Path) -> None:
    name = file.stem.partition("-")[2]
    assert read_about(file).about == {"made": make_models.ABOUT, "name": name}
    expected: Any = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
    if isinstance(expected, list):  # the first files came with scores only
        expected = {"scores": expected}
    found = make_models.results(name, load(file))
    for answer, value in expected.items():
        if isinstance(value, str):
            assert found[answer] == value
        else:
            rtol = TOLERANCE.get(answer, SINGLE if name == "float32" else USUAL)
            np.testing.assert_allclose(found[answer], value, rtol=0, atol=rtol * np.abs(value).max(), err_msg=answer)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_loaded_model_is_saved_to_the_same_bytes(file: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.kpca"
    about = read_about(file)
    save(load(file), again, about=about.about)
    if read_about(again).saved_with != about.saved_with:
        pytest.skip("The file was written by another version of kpca, NumPy, SciPy or scikit-learn.")
    assert again.read_bytes() == file.read_bytes()


def test_every_frozen_tag_can_still_be_read_and_is_in_some_file() -> None:
    """A class that is new in the registry may wait for the next files before its tag is frozen."""
    tags = (make_models.FOLDER / "tags.txt").read_text(encoding="utf-8").split()
    assert tags == sorted(set(tags))
    assert set(tags) == set().union(*map(tags_in, FILES))
    assert set(tags) <= {row.tag for row in ROWS}


def test_every_model_has_a_file_and_all_are_small() -> None:
    assert {file.stem.partition("-")[2] for file in FILES} == set(make_models.MODELS)
    assert sum(file.stat().st_size for file in make_models.FOLDER.iterdir()) < 400_000
