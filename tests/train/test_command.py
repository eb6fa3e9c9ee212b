"""`python -m train` as a command of an installed distribution."""

import os
import subprocess
import sys
from pathlib import Path


def test_help_works_outside_the_checkout(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-m", "train", "--help"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: python -m train")
    for line in ("algorithm    cispo, dppo", "experiment   ci, hundreds, qwen3_30b_a3b_2x8, qwen3_30b_a3b_8gpu, toy"):
        assert line in done.stdout
    assert list(tmp_path.iterdir()) == []
