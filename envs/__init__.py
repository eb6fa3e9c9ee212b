"""What the world is: tasks, environments, tools; a domain binds its tasks, environment and scorer.

May import `rewards` and domain libraries, never torch, ray, vllm, deepspeed, `rollouts` or `train`.
Start at `envs.domain` for the contract and `envs.families` for the table of families.
"""
