"""New files that appear whole or not at all: written under another name beside the target, renamed at the end."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import sys
from collections.abc import Iterator
from typing import BinaryIO

from kpca._base.errors import InputError

_UNFINISHED = ".part"


def temporary_name(path: str) -> str:
    """Return an unused name in the folder of `path`, so that a rename stays within one disk."""
    folder, name = os.path.split(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise InputError(f"The folder of {path!r} must exist; there is no {folder!r}: make it first.")
    return os.path.join(folder, f"{_prefix(name)}{secrets.token_hex(6)}{_UNFINISHED}")


def unfinished(path: str) -> list[str]:
    """Return the temporary names of `path` that are there: killed processes left them behind."""
    folder, name = os.path.split(os.path.realpath(path))
    found = [each for each in os.listdir(folder) if each.startswith(_prefix(name)) and each.endswith(_UNFINISHED)]
    return [os.path.join(folder, each) for each in found]


def _prefix(name: str) -> str:
    # a digest, because a name with anything added may be too long for a file system
    return f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}."


class NewFile:
    """A file that is written aside; `finish` puts it in the place of the target, `abandon` removes it."""

    def __init__(self, path: str) -> None:
        self._target = os.path.realpath(path)
        self.path = temporary_name(path)  # where it is until it is finished
        self.file: BinaryIO = open_new(self.path)

    def finish(self) -> None:
        """Put the file in the place of the target once all of it is on the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        os.replace(self.path, self._target)

    def abandon(self) -> None:
        """Remove the file; the target is as it was."""
        with contextlib.suppress(OSError):  # what is still in the buffer may not fit either, and is not wanted
            self.file.close()
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.path)


@contextlib.contextmanager
def new_file(path: str) -> Iterator[BinaryIO]:
    """Give a file to write to that appears whole at the end, or not at all if anything fails."""
    new = NewFile(path)
    try:
        yield new.file
        new.finish()
    except BaseException:
        new.abandon()
        raise


def write_failed(target: str, error: OSError, *, kept: bool) -> InputError:
    """Return the sentence for a target that could not be written."""
    after = "what was there before is unchanged" if kept else "it holds the rows written until then"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InputError(
            f"The disk must have room for {target}, and it is full: make room or choose another place; {after}."
        )
    return InputError(f"{target} must be writable; the system says: {error.strerror or error}; {after}.")


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file that appears whole or not at all; a failure leaves what was there as it was."""
    target = os.fsdecode(path)
    if os.path.isdir(target):
        raise InputError(f"{target!r} must be a file or new; it is a folder: choose another name.")
    try:
        with new_file(target) as file:
            file.write(content)
    except OSError as error:
        raise write_failed(repr(target), error, kept=True) from error


def open_new(path: str) -> BinaryIO:
    """Create a file for writing, with the permissions that new files have."""
    return open(path, "xb")


def silence_stdout() -> None:
    """Send what Python still holds for standard output nowhere, or it would complain when it ends."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):  # not a real one
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
