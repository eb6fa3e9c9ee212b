"""How trajectories come to be: mixture, chat rendering, episodes, engines, the pool of Ray actors.

May import `envs` and `rewards`; `ray` and `vllm` each only in the modules that wrap them; never deepspeed or wandb.
Start at `rollouts.episode` for one task, and `rollouts.pool` for hundreds at once.
"""
