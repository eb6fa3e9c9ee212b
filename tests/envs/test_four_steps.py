"""The README's "Add a domain in four steps", followed to the letter in a folder outside the repository."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from envs.identity import code_id
from envs.questions import exact_score

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"<!-- four-steps: (\S+) -->\n```\w*\n(.*?)```", README, re.DOTALL)


def test_the_four_steps_of_the_readme(tmp_path: Path) -> None:
    kinds = [kind for kind, _ in BLOCKS]
    assert kinds == ["my_package/my_family.py", "run", "run", "run", "run"]
    (tmp_path / kinds[0]).parent.mkdir()
    (tmp_path / kinds[0]).write_text(BLOCKS[0][1])
    listed, shown, checked, mixed = (_run(command, tmp_path) for _, command in BLOCKS[1:])
    assert "mine/larger" in listed and code_id(exact_score) in listed and "1 domains" in listed
    assert re.search(r"larger of \d+ and \d+", shown) and "score      1\n" in shown
    assert "mine/larger" in checked and "1 domains checked, 0 with problems" in checked
    row = next(line.split() for line in mixed.splitlines() if line.startswith("mine/larger"))
    # One of thirteen domains, twice as heavy as the twelve others.
    assert row[1] == f"{2 / 14:.4%}" and row[-1] == "mix.domains.mine/larger=2"
    assert {path.name for path in tmp_path.iterdir()} == {"my_package"}


def _run(command: str, folder: Path) -> str:
    words = shlex.split(command)
    assert words[0] == "python"
    environment = os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, *words[1:]], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
