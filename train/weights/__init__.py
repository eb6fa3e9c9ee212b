"""Where weights go: names and formats, publishing to engines, checkpoints, and the proof of an export.

Everything here moves bytes that `train.policy.mxfp4` made; nothing here quantises a second time.
Start at `publish` for the live path and `formats` for the names.
"""
