"""`python -m train`, with one fault: from the second publish on, no weight leaves the trainers.

The driver believes that every engine has the new version.  Used by `tests.integration.ci_run`: a run must refuse such
engines before it trains on a token of theirs.
"""

from __future__ import annotations

import sys

from rollouts.pool import MakeChunk, PublishReport, RolloutPool
from train.__main__ import main

publish = RolloutPool.publish
published: list[int] = []


def publish_once(pool: RolloutPool, version: int, num_chunks: int, make_chunk: MakeChunk) -> PublishReport:
    published.append(version)
    return publish(pool, version, num_chunks, make_chunk) if len(published) == 1 else PublishReport()


if __name__ == "__main__":
    RolloutPool.publish = publish_once  # type: ignore[method-assign, assignment]
    sys.exit(main(sys.argv[1:]))
