"""What something is worth: scorers, normalisation, advantages.

Knows no world, only answers, numbers and names.  May import numpy and verifier libraries, never torch, ray,
vllm, deepspeed or the other packages of this project.
"""
