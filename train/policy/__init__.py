"""What computes: losses, packing, the MXFP4 quantiser, the DeepSpeed policy and the Ray actors around it.

`losses`, `packing` and `mxfp4` are pure (tensors in, tensors out); `policy` and `workers` are the plumbing.
Only this folder imports deepspeed.
"""
