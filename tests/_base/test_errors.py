"""Messages that know their parameters."""

import pickle

import pytest

from kpca._base.errors import InputError, InputWarning, InPython, Setting

LESS = InPython("other()", Setting("other"))


def option(setting: Setting) -> str:
    value = str(setting).partition("=")[2].strip("'")
    return f"--{setting.name}" + (f" {value}" if value else "")


@pytest.mark.parametrize(
    ("error", "in_python", "on_the_command_line"),
    [
        (InputError("X must be finite."), "X must be finite.", "X must be finite."),
        (InputError("X must be finite"), "X must be finite.", "X must be finite."),
        (
            InputError("must be a whole number from 1", param="rank", value=0),
            "rank must be a whole number from 1; got 0.",
            "--rank must be a whole number from 1; got 0.",
        ),
        (
            InputError(("There is no ", Setting("label")), remedy=("take ", Setting("impute", "median"))),
            "There is no label: take impute='median'.",
            "There is no --label: take --impute median.",
        ),
        (
            InputError(("must be ", InPython("None, "), "a number"), param="seed", remedy=("take ", LESS)),
            "seed must be None, a number: take other().",
            "--seed must be a number: take --other.",
        ),
        (InputWarning((Setting("rank", 9), " is too large")), "rank=9 is too large.", "--rank 9 is too large."),
    ],
)
def test_each_door_has_its_own_words(
    error: InputError | InputWarning, in_python: str, on_the_command_line: str
) -> None:
    again = pickle.loads(pickle.dumps(error))
    for one in (error, again):
        assert str(one) == in_python
        assert one.told(option) == on_the_command_line
        assert one.param == error.param
        assert type(one) is type(error)
