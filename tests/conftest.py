"""Environment of every test, set before anything heavy is imported."""

from __future__ import annotations

import os

# Waiting threads sleep instead of spinning: on few cores spinning slows a step tenfold.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("DS_ACCELERATOR", "cpu")
# Tests use what the project ships or makes; a test that would download fails at once instead.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
