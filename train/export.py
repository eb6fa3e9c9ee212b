"""`python -m train.export run=<run folder> [format=mxfp4|bf16] [out=<folder>]`: a folder to serve, and its proof.

In: the newest checkpoint of a run.  Out: a self-contained Hugging Face folder under `export/<format>/` (weights,
config, tokenizer, chat template, generation config, model card, manifest) and `proof.json`.  Exit code 0 only if the
proof passed; 2 for a wrong argument, 1 for a proof that failed.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import shutil
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from train.checkpoint import Checkpoint, newest
from train.weights import formats
from train.weights.proof import (
    Check,
    ProofReport,
    canary_requests,
    check_bytes,
    check_engine,
    check_trainer,
    decoded_digests,
)
from train.weights.publish import tensor_digest, version_checksum
from train.weights.state import StorageFailure, write_json_atomic

WEIGHTS = "model.safetensors"
MANIFEST = "manifest.json"
PROOF = "proof.json"


def export(run_dir: Path, format: str, out: Path) -> Path:
    """Write the newest checkpoint of `run_dir` as a serving folder.  Raises StorageFailure without a checkpoint."""
    saved = newest(run_dir)
    scratch = out.with_name(f".{out.name}.part")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    _copy_side_files(run_dir, scratch, format)
    quantiser = saved.quantiser()
    tensors = formats.serve_all(saved.masters, "mxfp4" if format == "mxfp4" else saved.run["format"], quantiser)
    served = tensors if format == "mxfp4" else formats.decode(tensors)
    save_file(served, scratch / WEIGHTS, metadata={"format": "pt", "scale_rule": quantiser.options.rule})
    (scratch / "README.md").write_text(_model_card(saved, format, served))
    _write_manifest(scratch, saved, format)
    shutil.rmtree(out, ignore_errors=True)
    scratch.rename(out)
    return out


def prove(run_dir: Path, folder: Path, format: str, *, minimum: int | None = None) -> ProofReport:
    """Check an export against its run: bytes, then a fresh engine on the canary.  Writes `proof.json` beside it.

    minimum: canary tokens that have to be compared (default: what the run's checkpoints store).
    """
    saved = newest(run_dir)
    config = saved.config
    wanted = config["checkpoint"]["canary_tokens"] if minimum is None else minimum
    checks = [check_manifest(folder)]
    tensors = _read_weights(folder, checks)
    if tensors is not None:
        checks.append(check_bytes(tensors, _published(saved, format), format))
    engine_format = ""
    if all(check.passed for check in checks) and tensors is not None:
        completions, engine_format, same_kernel = _fresh_engine(folder, tensors, format, saved)
        checks.append(check_engine(saved.canary, completions, same_kernel=same_kernel))
        checks.append(check_trainer(saved.canary, completions, config["fidelity"]["alarm"], wanted))
    report = ProofReport(
        version=saved.run["version"],
        format=format,
        engine_format=engine_format,
        num_tokens=sum(len(ids) for ids in saved.canary["tokens"]),
        checks=tuple(checks),
    )
    write_json_atomic(folder / PROOF, report.as_dict())
    return report


def check_manifest(folder: Path) -> Check:
    """Every file of the export is there, with the bytes that the manifest names, and nothing else is."""
    path = folder / MANIFEST
    if not path.exists():
        return Check(name="manifest", passed=False, detail=f"{path} is missing")
    files = json.loads(path.read_text())["files"]
    wrong = [name for name, digest in files.items() if _file_digest(folder / name) != digest]
    extra = sorted({item.name for item in folder.iterdir()} - set(files) - {MANIFEST, PROOF})
    if wrong or extra:
        return Check(name="manifest", passed=False, detail=f"changed or missing: {wrong}; unknown: {extra}")
    return Check(name="manifest", passed=True, detail=f"{len(files)} files as listed")


def _read_weights(folder: Path, checks: list[Check]) -> dict[str, Tensor] | None:
    try:
        return load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        checks.append(Check(name="bytes", passed=False, detail=f"{folder / WEIGHTS} cannot be read: {error}"))
        return None


def _published(saved: Checkpoint, format: str) -> dict[str, str]:
    """Digests that the export has to have: as published, or of the decoded values of exactly those bytes."""
    published: dict[str, str] = saved.run["published"]
    if format == saved.run["format"]:
        return published
    tensors = formats.serve_all(saved.masters, saved.run["format"], saved.quantiser())
    again = {name: tensor_digest(tensor) for name, tensor in tensors.items()}
    if version_checksum(again) != version_checksum(published):
        # The checkpoint's masters do not give the published bytes: let every tensor be reported as differing.
        return published
    return decoded_digests(tensors)


def _fresh_engine(
    folder: Path, tensors: Mapping[str, Tensor], format: str, saved: Checkpoint
) -> tuple[list[Any], str, bool]:
    """What a new engine in this process makes of the canary, its format, whether the live engine had that kernel."""
    import dataclasses
    import os
    import tempfile

    from rollouts.vllm_engine import EngineSettings, VllmDriver

    # A run keeps the same engine's warnings in its logs; here they would bury the proof.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    warnings.filterwarnings("ignore", category=FutureWarning, module="vllm")
    live = saved.run["engine"]
    os.environ |= {"OMP_NUM_THREADS": str(live["threads"]), "OMP_WAIT_POLICY": "PASSIVE", "VLLM_HOST_IP": "127.0.0.1"}
    engine_format = format if format == "bf16" else live["format"]
    with tempfile.TemporaryDirectory(prefix="jr-proof-") as scratch:
        directory = Path(scratch) / "engine"
        shutil.copytree(folder, directory, ignore=shutil.ignore_patterns(WEIGHTS, PROOF))
        config = json.loads((folder / "config.json").read_text())
        (directory / "config.json").write_text(json.dumps(formats.serving_config(config, engine_format)))
        settings = EngineSettings(**live["settings"])
        driver = VllmDriver(dataclasses.replace(settings, model=str(directory)))
        served = formats.decode(tensors) if engine_format == "bf16" else dict(tensors)
        path = Path(scratch) / "weights.safetensors"
        save_file(served, path)
        driver.begin_update()
        driver.load_chunk(str(path), len(served))
        driver.commit_update(saved.run["version"], "export")
        completions = driver.complete(canary_requests(saved.canary))
    return completions, engine_format, engine_format == live["format"]


def _copy_side_files(run_dir: Path, scratch: Path, format: str) -> None:
    """Tokenizer, chat template and generation config byte for byte as they were in rollouts; the config per format."""
    source = run_dir / "engine"
    for path in sorted(source.iterdir()):
        if path.name != "config.json":
            shutil.copy(path, scratch / path.name)
    config = json.loads((source / "config.json").read_text())
    (scratch / "config.json").write_text(json.dumps(formats.serving_config(config, format), indent=1) + "\n")


def _write_manifest(folder: Path, saved: Checkpoint, format: str) -> None:
    files = {path.name: _file_digest(path) for path in sorted(folder.iterdir())}
    document = {
        "format": format,
        "version": saved.run["version"],
        "checkpoint": saved.path.name,
        "scale_rule": saved.quantiser().options.rule,
        "files": files,
    }
    write_json_atomic(folder / MANIFEST, document)


def _file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _model_card(saved: Checkpoint, format: str, tensors: Mapping[str, Tensor]) -> str:
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    rule = saved.quantiser().options.rule
    what = {
        "mxfp4": f"Routed experts in MXFP4 (blocks of 32, scale rule `{rule}`), everything else in bf16.",
        "bf16": "All weights in bf16; routed experts hold the decoded MXFP4 values where they were trained so.",
    }[format]
    return (
        f"# {saved.config['name']}\n\nExported by jointrl from policy version {saved.run['version']} "
        f"({saved.path.name}).\n\n- {what}\n- {len(tensors)} tensors, {size / 1e6:.1f} MB.\n"
        f"- `{MANIFEST}` lists every file with its SHA-256; `{PROOF}` says how the export was compared with the live "
        "engine and the trainer.\n- Chat template with thinking tiers: pass `thinking_tier` (low, high, max).\n\n"
        f"Serve it: `vllm serve <this folder>`"
        f"{' (MXFP4 experts need a GPU, or a CPU with AMX)' if format == 'mxfp4' else ''}.\n"
    )


def parse(arguments: list[str], known: Mapping[str, str]) -> dict[str, str]:
    """`key=value` arguments over defaults.  Raises ValueError naming an unknown key and the nearest known one."""
    out = dict(known)
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; keys are {', '.join(known)}"
            raise ValueError(f"unknown argument {argument!r}{hint}")
        out[key] = value
    return out


def main(arguments: list[str]) -> int:
    try:
        given = parse(arguments, {"run": "", "format": "mxfp4", "out": ""})
        if given["format"] not in formats.FORMATS:
            raise ValueError(f"format={given['format']!r} is not one of {', '.join(formats.FORMATS)}")
        run_dir = Path(given["run"])
        if not given["run"] or not run_dir.is_dir():
            raise ValueError(f"run={given['run']!r} is not a run folder; give run=runs/<name>")
        out = Path(given["out"]) if given["out"] else run_dir / "export" / given["format"]
        print(f"[export] {run_dir} as {given['format']} to {out}", flush=True)
        export(run_dir, given["format"], out)
    except (ValueError, StorageFailure) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("[export] proving: a fresh engine answers the checkpoint's canary", flush=True)
    report = prove(run_dir, out, given["format"])
    for check in report.checks:
        print(f"[proof] {'ok    ' if check.passed else 'FAILED'} {check.name}: {check.detail}")
    print(f"[export] {'proven' if report.passed else 'NOT PROVEN'}: {out} ({PROOF} has the figures)")
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
