"""Tables of rows: local files, saved data sets and the Hub's, memory-mapped by the library `datasets`.

In: the keys `path`, `name`, `split`, `revision`, `sha256` and `held_out` of a file.  Out: `Table`s.  Called by
`envs.adapters.rows`.  Local files need no network; the Hub's are read offline too once they are in the cache
(HF_DATASETS_OFFLINE=1).  Cells of a CSV file are texts as they stand there: `007` stays `007`, and `NA` is no gap.
"""

from __future__ import annotations

import csv
import functools
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envs.adapters.settings import Settings
from envs.types import Split

FORMATS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}
BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with a fingerprint.

    `split`: the side that all are on.  `rule`: a column, and its values that are held out.  Neither: a hash decides.
    """

    data: Any
    label: str
    fingerprint: str
    split: Split | None = None
    rule: tuple[str, tuple[str, ...]] | None = None

    def __len__(self) -> int:
        return len(self.data)

    @property
    def columns(self) -> list[str]:
        return list(self.data.column_names)

    def rows(self, indices: Sequence[int], names: Sequence[str]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """Index and row, in the order asked for, of these columns and the rule's."""
        wanted = list(dict.fromkeys([*names, *([self.rule[0]] if self.rule else [])]))
        data = self.data.select_columns(wanted)
        for start in range(0, len(indices), BATCH):
            part = list(indices[start : start + BATCH])
            batch = data[part]
            for place, index in enumerate(part):
                yield index, {name: batch[name][place] for name in wanted}

    def split_of(self, row: Mapping[str, Any]) -> Split | None:
        """The declared side of a row; None where a hash of its prompt decides."""
        if self.rule is None:
            return self.split
        return "held_out" if str(row[self.rule[0]]) in self.rule[1] else "train"


def open_tables(settings: Settings) -> list[Table]:
    """The table to train on, and where `held_out` names a split or a file, the one to evaluate on."""
    source = _Source(
        paths=tuple(settings.texts("path")),
        name=settings.text("name", ""),
        split=settings.text("split", "train"),
        revision=settings.text("revision", ""),
    )
    table = _open(settings, source)
    wanted = settings.text("sha256", "")
    if wanted and wanted != table.fingerprint.removeprefix("sha256:"):
        raise settings.wrong("sha256", f"the data is {table.fingerprint}; it has changed, or is another file")
    inner = settings.inner("held_out")
    if inner is None:
        return [table]
    if inner.has("column"):
        column, values = inner.text("column"), tuple(inner.texts("values"))
        inner.finish()
        if column not in table.columns:
            raise inner.wrong("column", f"there is no column {column!r}; columns are {', '.join(table.columns)}")
        return [Table(table.data, table.label, table.fingerprint, None, (column, values))]
    paths = tuple(inner.texts("path", list(source.paths)))
    split = inner.text("split", source.split)
    inner.finish()
    other = _Source(paths, source.name, split, source.revision)
    if other == source:
        raise inner.wrong("split", "it is the same as the table that is trained on; name another split, path or column")
    held = _open(settings, other)
    return [
        Table(table.data, table.label, table.fingerprint, "train"),
        Table(held.data, held.label, held.fingerprint, "held_out"),
    ]


@dataclass(frozen=True, slots=True)
class _Source:
    paths: tuple[str, ...]
    name: str
    split: str
    revision: str


def _open(settings: Settings, source: _Source) -> Table:
    files = [settings.folder / path for path in source.paths]
    known = [path for path in files if path.exists()]
    if known and len(known) < len(files):
        missing = next(path for path in files if not path.exists())
        raise settings.wrong("path", f"there is no {missing}")
    if known:
        return _local(settings, known, source)
    path = source.paths[0] if source.paths else ""
    if len(source.paths) != 1 or Path(path).suffix in FORMATS or path.startswith((".", "/")):
        raise settings.wrong(
            "path", f"there is no {files[0] if files else 'path'}; it is relative to {settings.folder}"
        )
    return _hub(settings, path, source)


def _local(settings: Settings, paths: list[Path], source: _Source) -> Table:
    if source.name or source.revision:
        raise settings.wrong("name", "only a data set of the Hub has a name or a revision; remove it")
    if len(paths) == 1 and (paths[0] / "state.json").exists():
        return _saved(paths[0])
    files = sorted(file for path in paths for file in ([path] if path.is_file() else path.iterdir()) if file.is_file())
    formats = {FORMATS.get(file.suffix, "") for file in files}
    if len(formats) != 1 or "" in formats:
        shown = ", ".join(file.name for file in files[:5]) or "no file"
        raise settings.wrong("path", f"it must be files of one kind of {', '.join(FORMATS)}, got {shown}")
    label = ", ".join(file.name for file in files)
    digest = _sha256(tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files))
    data = _loaded(settings, formats.pop(), split="train", data_files=[str(file) for file in files], **_cells(files))
    return Table(data, label, f"sha256:{digest}")


def _cells(files: list[Path]) -> dict[str, Any]:
    """How a CSV file is read: every cell is a text."""
    if files[0].suffix != ".csv":
        return {}
    from datasets import Features, Value

    with files[0].open(newline="", encoding="utf-8") as file:
        names = next(csv.reader(file), [])
    return {"features": Features({name: Value("string") for name in names}), "keep_default_na": False}


def _saved(path: Path) -> Table:
    import datasets

    data = datasets.load_from_disk(str(path))
    files = sorted(path.glob("*.arrow"))
    digest = _sha256(tuple((str(file), file.stat().st_mtime_ns, file.stat().st_size) for file in files))
    return Table(data, path.name, f"sha256:{digest}")


def _hub(settings: Settings, path: str, source: _Source) -> Table:
    arguments = {"name": source.name or None, "revision": source.revision or None}
    data = _loaded(settings, path, split=source.split, **arguments)
    label = "/".join(filter(None, (path, source.name, source.split)))
    return Table(data, label, f"{label}:{data._fingerprint}")


def _loaded(settings: Settings, path: str, **arguments: Any) -> Any:
    """What the library says is wrong is the user's to read: a name, a split, a broken file, no network."""
    import datasets

    datasets.disable_progress_bars()
    try:
        return datasets.load_dataset(path, **arguments)
    except Exception as problem:
        cause = problem.__cause__ or problem
        words = f"{type(cause).__name__}: {str(cause)[:500]}"
        raise settings.wrong("path", f"the library `datasets` cannot load it: {words}") from problem


@functools.lru_cache(maxsize=64)
def _sha256(files: tuple[tuple[str, int, int], ...]) -> str:
    """Of all files' contents, read once a process as long as they do not change."""
    digest = hashlib.sha256()
    for name, _, _ in files:
        with open(name, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest() if len(files) > 1 else b"")
            if len(files) == 1:
                return hashlib.file_digest(file, "sha256").hexdigest()
    return digest.hexdigest()
