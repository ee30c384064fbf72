"""A first look at an H5AD file by a process of its own.

HDF5 does not always come back from a damaged file: lists of texts in it may lead in a circle, or claim gigabytes. What
happens to a process that reads them is seen from outside, and said in a sentence.
"""

from __future__ import annotations

import os
import subprocess
import sys

from kpca.errors import InputError

# Seconds that names may take to be read on a busy machine, and bytes of a file for each further one.
PATIENCE = 60.0
_BYTES_PER_SECOND = 1e8
_MEMORY = 2 << 30
_NO_MEMORY, _UNREADABLE = 4, 5

# Reads what AnnData files have texts in: all attributes, the names of rows and columns, and the annotations asked for.
_LOOK = """
import sys
import h5py
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
except (ImportError, ValueError, OSError):
    pass

def look(item, wanted):
    for key in item.attrs:
        item.attrs[key]
    if isinstance(item, h5py.Dataset):
        if wanted and item.dtype.kind == "O":
            item[()]
        return
    for key in item:
        if isinstance(item.get(key, getlink=True), h5py.HardLink):
            look(item[key], wanted)

def main(path, columns):
    with h5py.File(path, "r") as file:
        for key in ("X", "layers", "obsm", "obs", "var"):
            if key in file:
                look(file[key], False)
        for key in ("obs", "var"):
            index = file[key].attrs.get("_index", "_index")
            for column in {index, *columns} & set(file[key]):
                look(file[key][column], True)

try:
    main(sys.argv[1], sys.argv[3:])
except MemoryError:
    sys.exit(4)
except PermissionError:
    pass
except (OSError, RuntimeError) as error:
    print(" ".join(str(error).split()), file=sys.stderr)
    sys.exit(5)
except Exception:
    pass  # not damaged but something else: said by the reader itself
"""


def look_first(name: str, columns: list[str]) -> None:
    """Refuse a file that a process cannot read to the end."""
    wait = PATIENCE + os.path.getsize(name) / _BYTES_PER_SECOND
    # -P: nothing that lies in the working directory is taken for a library
    command = [sys.executable, "-P", "-c", _LOOK, name, str(_MEMORY + os.path.getsize(name)), *columns]
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=wait, check=False)
    except subprocess.TimeoutExpired:
        raise _damaged(name, "reading the names in it does not end") from None
    except OSError:  # no further process may be started here
        return
    if ended.returncode == _UNREADABLE:
        raise _damaged(name, ended.stderr.decode(errors="replace").strip().rstrip(".") or "HDF5 gives no reason")
    if ended.returncode == _NO_MEMORY:
        raise _damaged(name, "the names in it ask for more memory than they can need")
    if ended.returncode < 0:
        raise _damaged(name, "reading the names in it ends a process")


def _damaged(name: str, reason: str) -> InputError:
    return InputError(f"{name!r} must be a whole H5AD file; it cannot be read ({reason}): write it again.")
