"""The only file that imports pyarrow, which reads and writes Parquet, Arrow and text tables."""

from __future__ import annotations

from typing import Any

from kpca.errors import InputError


def pyarrow(doing: str) -> Any:
    """Return the library with the parts used here, or say what it is needed for."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(f"{doing} needs pyarrow: pip install 'kpca[io]'.") from error
    return pyarrow
