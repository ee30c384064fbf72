"""Reads every file of the corpus in a process of its own, with little memory; says in JSON what came of each."""

from __future__ import annotations

import json
import os
import re
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import kpca
from kpca.data.arrow import pyarrow
from kpca.data.opening import open_table
from tests.data.broken_files import BROKEN

MEMORY = 128 << 20


def attempt(name: str, folder: Path) -> dict[str, Any]:
    """Build a file, read all of it, and say what was raised."""
    build, _, options = BROKEN[name]
    path = build(folder)
    before = sorted(os.listdir(folder)), sorted(os.listdir(tempfile.gettempdir()))
    began = time.monotonic()
    try:
        with kpca.config(memory_limit=MEMORY):
            table = open_table(path, **options)
            for _ in table.chunks():
                pass
            table.whole()
        kind, message = "nothing", ""
    except Exception as error:
        kind, message = type(error).__name__, str(error)
    after = sorted(os.listdir(folder)), sorted(os.listdir(tempfile.gettempdir()))
    return {
        "kind": kind,
        "message": message,
        "path": path.name,
        "clean": before == after and not os.path.exists("exploded"),
        "seconds": time.monotonic() - began,
    }


def main() -> None:
    """Go through the corpus in the folder given, under a limit on addresses that no bomb fits into."""
    root = Path(sys.argv[1])
    pyarrow("Reading")
    tempfile.tempdir = str(root / "temporary")
    os.makedirs(tempfile.tempdir)
    os.chdir(root)
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    outcomes = {}
    for name in BROKEN:
        folder = root / name
        folder.mkdir()
        outcomes[name] = attempt(name, folder)
    # Not from getrusage, which counts what the process that started this one held, too.
    peak = int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024  # type: ignore[index]
    print(json.dumps({"outcomes": outcomes, "peak": peak}))


if __name__ == "__main__":
    main()
