"""State on disk: atomic, checksummed, complete or absent.

In: named tensors and JSON documents (weights, moments, mixture, statistics, random streams).  Out: a directory that
either holds all of it, proven by checksums, or does not exist under its final name.  `train.checkpoint` writes
`checkpoints/step-000015` through it and reads it back to the bit; `train.export` uses the same directories.

A directory is `tensors.safetensors`, one `<name>.json` a document, and `manifest.json`, written last, with the size
and SHA-256 of every other file.  Nothing here unpickles: a checkpoint is data, never code.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

FORMAT = "jointrl-state"
VERSION = 1
MANIFEST = "manifest.json"
TENSORS = "tensors.safetensors"

_DOCUMENT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_STEP_NAME = re.compile(r"step-(\d{6,})")
# Directories being written or removed are hidden and end like this; whatever a killed process left is found by it.
_UNFINISHED = ".unfinished"


class StorageFailure(Exception):
    """State on disk is missing, damaged, foreign, or in use.  The message names the file and what is wrong with it."""


class Latest(NamedTuple):
    """The newest complete checkpoint, and the newer ones that were passed over with the reason of each."""

    path: Path | None
    passed_over: list[tuple[Path, str]]


def step_name(step: int) -> str:
    """`15` -> `"step-000015"`."""
    return f"step-{step:06d}"


def step_of(directory: Path) -> int:
    """`.../step-000015` -> `15`.  Raises `ValueError` for another name."""
    match = _STEP_NAME.fullmatch(directory.name)
    if match is None:
        raise ValueError(f"{directory} is not named like a checkpoint (step-000015)")
    return int(match.group(1))


# --- writing -----------------------------------------------------------------------------------------------------


def write_state(directory: Path, tensors: Mapping[str, torch.Tensor], documents: Mapping[str, Any]) -> None:
    """Write `directory` so that a kill at any moment leaves it complete or absent, then return.

    - `tensors`: any device and layout; they come back contiguous, on the CPU, bit-equal.
    - `documents`: name (no `.json`) to a JSON value.  What would not come back equal (tuples, integer keys, NaN) is a
      `ValueError`, so that resuming cannot change a value's type.

    A directory of that name is replaced; only then, and only between two renames, is neither of them in place.
    """
    texts = {f"{name}.json": _document_text(name, value) for name, value in documents.items()}
    directory.parent.mkdir(parents=True, exist_ok=True)
    scratch = _hidden_sibling(directory, "new")
    _remove_tree(scratch)
    scratch.mkdir()
    save_file(_writable(tensors), scratch / TENSORS)
    for name, text in texts.items():
        (scratch / name).write_text(text, encoding="utf-8")
    files = {name: _describe(scratch / name) for name in sorted([TENSORS, *texts])}
    (scratch / MANIFEST).write_text(_manifest_text(files), encoding="utf-8")
    for name in [*files, MANIFEST]:
        _sync(scratch / name)
    _sync(scratch)
    if directory.exists():
        replaced = _hidden_sibling(directory, "old")
        _remove_tree(replaced)
        directory.rename(replaced)
        scratch.rename(directory)
        _remove_tree(replaced)
    else:
        scratch.rename(directory)
    _sync(directory.parent)


def write_json_atomic(path: Path, value: Any) -> None:
    """Write one JSON file that readers see whole or not at all.  NaN and what is not JSON raise `ValueError`."""
    text = _document_text(path.name, value)
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = _hidden_sibling(path, "new")
    scratch.write_text(text, encoding="utf-8")
    _sync(scratch)
    scratch.replace(path)
    _sync(path.parent)


def _document_text(name: str, value: Any) -> str:
    if not _DOCUMENT_NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a document: letters, digits, '_', '-', '.'")
    if f"{name}.json" == MANIFEST:
        raise ValueError("a document cannot be called 'manifest': that file is the checksums' own")
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, indent=1)
    except (TypeError, ValueError) as error:
        raise ValueError(f"document {name!r} is not strict JSON: {error}") from error
    back = json.loads(text)
    if back != value:
        where = _first_difference(value, back, name)
        raise ValueError(f"document {where} would come back changed: use lists for tuples and strings for keys")
    return text + "\n"


def _first_difference(value: Any, back: Any, path: str) -> str:
    """The path of the first value that JSON changes, with what it was."""
    if isinstance(value, dict) and isinstance(back, dict) and list(value) == list(back):
        for key, child in value.items():
            if child != back[key]:
                return _first_difference(child, back[key], f"{path}.{key}")
    if isinstance(value, list) and isinstance(back, list) and len(value) == len(back):
        for number, (child, child_back) in enumerate(zip(value, back, strict=True)):
            if child != child_back:
                return _first_difference(child, child_back, f"{path}[{number}]")
    return f"{path} = {value!r:.80}"


def _writable(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Contiguous CPU tensors of their own: safetensors refuses two names for the same memory (tied weights)."""
    ready: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        plain = tensor.detach().to("cpu").contiguous()
        ready[name] = plain.clone() if plain.data_ptr() in seen else plain
        seen.add(plain.data_ptr())
    return ready


def _hidden_sibling(path: Path, kind: str) -> Path:
    return path.with_name(f".{path.name}.{kind}{_UNFINISHED}")


def _sync(path: Path) -> None:
    """Force a file's bytes, or a directory's entries, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_tree(directory: Path) -> None:
    if directory.exists():
        shutil.rmtree(directory)


# --- the manifest ------------------------------------------------------------------------------------------------


def _describe(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _manifest_text(files: Mapping[str, Any]) -> str:
    """The manifest carries its own digest, so a flipped bit in it is told from a flipped bit in a file."""
    body = {"format": FORMAT, "version": VERSION, "files": dict(files)}
    return json.dumps({**body, "sha256": _digest(body)}, indent=1, sort_keys=True) + "\n"


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _read_manifest(directory: Path) -> dict[str, dict[str, Any]]:
    """File name -> size and digest.  Raises `StorageFailure`."""
    path = directory / MANIFEST
    if not directory.is_dir():
        raise StorageFailure(f"{directory} does not exist or is not a directory")
    if not path.is_file():
        raise StorageFailure(f"{path} is missing: the write never finished, or this is not a state directory")
    try:
        manifest = json.loads(path.read_bytes())
    except ValueError as error:  # also UnicodeDecodeError
        raise StorageFailure(f"{path} is damaged: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise StorageFailure(f"{path} is foreign: it does not say format {FORMAT!r}")
    if manifest.get("version") != VERSION:
        raise StorageFailure(f"{path} has unknown version {manifest.get('version')!r}: this code reads {VERSION}")
    claimed = manifest.pop("sha256", None)
    if claimed != _digest(manifest):
        raise StorageFailure(f"{path} is damaged: its own checksum does not match")
    files: dict[str, dict[str, Any]] = manifest["files"]
    return files


def _check_sizes(directory: Path) -> dict[str, dict[str, Any]]:
    """The cheap half of the check: manifest intact, every file there in its size, none besides."""
    files = _read_manifest(directory)
    for name, described in files.items():
        path = directory / name
        if not path.is_file():
            raise StorageFailure(f"{path} is missing")
        size = path.stat().st_size
        if size != described["bytes"]:
            what = "truncated" if size < described["bytes"] else "longer than written"
            raise StorageFailure(f"{path} is {what}: {size} bytes, {described['bytes']} in the manifest")
    foreign = sorted({entry.name for entry in directory.iterdir()} - {*files, MANIFEST})
    if foreign:
        raise StorageFailure(f"{directory / foreign[0]} is foreign: it is not in the manifest")
    return files


def verify_state(directory: Path) -> list[str]:
    """Check every byte of a state directory and return its file names.  Raises `StorageFailure`."""
    files = _check_sizes(directory)
    for name, described in files.items():
        if _describe(directory / name)["sha256"] != described["sha256"]:
            raise StorageFailure(f"{directory / name} is damaged: its checksum does not match the manifest")
    return list(files)


# --- reading -----------------------------------------------------------------------------------------------------


def read_state(directory: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Verify a state directory and return its tensors and documents.  Raises `StorageFailure`."""
    names = verify_state(directory)
    try:
        tensors = load_file(directory / TENSORS)
    except (SafetensorError, OSError) as error:
        raise StorageFailure(f"{directory / TENSORS} cannot be read: {error}") from error
    documents = {
        name.removesuffix(".json"): json.loads((directory / name).read_text(encoding="utf-8"))
        for name in names
        if name != TENSORS
    }
    return tensors, documents


def latest_complete(root: Path) -> Latest:
    """The newest checkpoint under `root` that verifies.  Raises `StorageFailure` if `root` does not exist."""
    passed_over: list[tuple[Path, str]] = []
    for directory in reversed(_checkpoints(root)):
        reason = _fault(directory, verify_state)
        if reason is None:
            return Latest(directory, passed_over)
        passed_over.append((directory, reason))
    return Latest(None, passed_over)


def find_resume(path: Path) -> Latest:
    """What `resume=path` means: a checkpoint itself, or a folder of checkpoints whose newest complete one is taken.

    It never means "start afresh": a path that does not exist or holds no complete checkpoint raises `StorageFailure`.
    """
    if _STEP_NAME.fullmatch(path.name):
        verify_state(path)
        return Latest(path, [])
    latest = latest_complete(path)
    if latest.path is None:
        reasons = "".join(f"\n  {directory.name}: {reason}" for directory, reason in latest.passed_over)
        raise StorageFailure(f"{path} holds no complete checkpoint to resume from{reasons}")
    return latest


def prune(root: Path, keep: int) -> list[Path]:
    """Remove all but the newest `keep` complete checkpoints, and what killed writes left; return what was removed.

    Incomplete checkpoints do not count and stay where they are, for a person to look at.  Only sizes are compared
    here: reading every byte of every checkpoint each time would cost more than writing one.
    """
    if keep < 1:
        raise ValueError(f"keep={keep}: at least one checkpoint must stay")
    complete = [directory for directory in _checkpoints(root) if _fault(directory, _check_sizes) is None]
    removed = complete[:-keep]
    for directory in removed:
        # Renamed first: a kill halfway through leaves a hidden leftover, not something that looks like a checkpoint.
        scratch = _hidden_sibling(directory, "old")
        _remove_tree(scratch)
        directory.rename(scratch)
    leftovers = [path for path in root.iterdir() if path.name.startswith(".step-") and path.suffix == _UNFINISHED]
    for path in leftovers:
        _remove_tree(path)
    return removed


def _checkpoints(root: Path) -> list[Path]:
    if not root.is_dir():
        raise StorageFailure(f"{root} does not exist or is not a directory")
    return sorted((path for path in root.iterdir() if _STEP_NAME.fullmatch(path.name)), key=step_of)


def _fault(directory: Path, check: Callable[[Path], object]) -> str | None:
    try:
        check(directory)
    except StorageFailure as failure:
        return str(failure)
    return None


# --- one run a directory -----------------------------------------------------------------------------------------


class RunLock:
    """Hold a run directory for this process: `with RunLock(run_dir): ...`.

    The kernel drops the lock when the process ends, however it ends, so there is no stale lock to clean up; the text
    in the file only says who holds it.  Entering a directory that is held raises `StorageFailure`.
    """

    def __init__(self, run_dir: Path) -> None:
        self.path = run_dir / "lock"
        self._file: IO[str] | None = None

    def __enter__(self) -> RunLock:
        assert self._file is None, "the lock is not re-entrant"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = self.path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            file.close()
            raise StorageFailure(f"run directory {self.path.parent} is in use by {holder}") from error
        file.truncate(0)
        file.write(f"pid {os.getpid()}, host {socket.gethostname()}\n")
        file.flush()
        self._file = file
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None, "the lock was not held"
        self._file.close()
        self._file = None
