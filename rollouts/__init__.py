"""How trajectories come to be: mixture, chat rendering, episodes, engines, the pool of Ray actors.

May import `envs` and `rewards`; `ray` and `vllm` each only in the modules that wrap them; never deepspeed or wandb.
Start at `rollouts.episode` for one task, and `rollouts.pool` for hundreds at once.
"""

import os

# Ray on one machine listens on loopback only if this is set before anybody imports it, and then it cannot span
# machines.  Here, because whoever imports a part of this package, or of `train`, comes past this line first.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
