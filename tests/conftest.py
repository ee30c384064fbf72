"""Settings and fixtures shared by all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# "ci" is the default everywhere: the same examples on each run. `pytest --hypothesis-profile dev` looks for new ones.
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("dev", deadline=None, max_examples=300, print_blob=True)
settings.load_profile("ci")


@pytest.fixture(scope="session")
def global_random_seed() -> int:
    """The seed scikit-learn's own tests ask for by this name."""
    return 42


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets; a test that needs it is skipped where there is none."""
    folder = Path(os.environ.get("KPCA_DATA") or ROOT / "../shared/data").resolve()
    if not folder.is_dir():
        pytest.skip("This test needs the folder of real data sets; set KPCA_DATA to where it is.")
    return folder
