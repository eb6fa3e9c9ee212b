"""How the policy changes: the run, its loop, and one command a file (`python -m train.<command>`).

May import everything; `deepspeed` only inside `train/policy/`, `wandb` only in `train/tracking.py`.
Start at `train.loop`.
"""

import rollouts  # noqa: F401  # sets what Ray reads when it is imported
