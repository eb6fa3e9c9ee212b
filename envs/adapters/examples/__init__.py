"""Examples for the adapters: YAML files, data, a taskset of `verifiers` and a server of OpenEnv.

Run by docs/adapters.md and the tests; nothing else imports them.
"""
