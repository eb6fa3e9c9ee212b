"""Runs that live on a cluster: their Slurm script, the nodes of a job, and what is known of it from outside.

Start at `train.cluster.slurm` (submit) and `train.cluster.node` (what runs on each node).
"""
