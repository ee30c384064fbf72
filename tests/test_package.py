"""The package as a whole: what `import kpca` offers and what it costs."""

import importlib.metadata
import subprocess
import sys

import pytest

import kpca


def run_python(code: str) -> str:
    """Standard output of a fresh interpreter that runs `code`."""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_import_is_cheap() -> None:
    loaded = run_python("import sys, kpca; print(*sys.modules)").split()
    assert "kpca" in loaded
    assert not {"numpy", "scipy", "sklearn"} & set(loaded)


@pytest.mark.parametrize("name", kpca.__all__)
def test_public_name_resolves(name: str) -> None:
    value = getattr(kpca, name)
    assert getattr(kpca, name) is value


@pytest.mark.slow
@pytest.mark.parametrize("home", sorted(set(kpca._HOME.values())))
def test_public_module_can_be_imported_first(home: str) -> None:
    """No module counts on another one having been imported before it."""
    run_python(f"import kpca.{home}")


def test_lists_of_public_names_agree() -> None:
    assert set(kpca.__all__) == {*kpca._HOME, "__version__"}
    assert set(kpca.__all__) <= set(dir(kpca))


def test_config_is_the_function_not_a_module() -> None:
    assert callable(kpca.config)


def test_unknown_attribute() -> None:
    with pytest.raises(AttributeError, match=r"module 'kpca' has no attribute 'KernelPCB'"):
        kpca.KernelPCB  # noqa: B018
    assert not hasattr(kpca, "nothing")


def test_version_matches_the_installed_metadata() -> None:
    installed = importlib.metadata.version("kpca")
    assert installed == kpca.__version__, "The installed metadata is stale: touch pyproject.toml and run make again."


def test_module_runs_as_the_command() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "kpca", "--help"], capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert "demo" in result.stdout
