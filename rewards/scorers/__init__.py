"""Verifiers shared by domains: each takes an answer and a reference and gives a number.

A scorer that evaluates the model's text would be marked hostile and called only from `envs/`, through the
sandbox; none here does.
"""
