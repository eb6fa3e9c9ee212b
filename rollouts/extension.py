"""What vLLM's workers are given of ours: the weight-transfer backend, route capture, and a look at what they hold.

vLLM imports this module by name in each of its worker processes (`worker_extension_cls`), before it looks for the
weight-transfer backend: importing it registers ours there too.
"""

from __future__ import annotations

from typing import Any

from rollouts import transfer
from rollouts.routes import RouteCapture

EXTENSION = "rollouts.extension.WorkerExtension"

transfer.register()


class WorkerExtension(RouteCapture):
    """Methods that vLLM's workers get.  `self` is the worker."""

    weight_transfer_engine: Any
    _weight_update_active: bool

    def kernel_checksum(self) -> str:
        """A checksum of every weight as the kernels read it; see `rollouts.transfer.kernel_checksum`."""
        return transfer.kernel_checksum(self.model_runner.model)

    def abort_weight_update(self) -> None:
        """Close a weight update that will not be finished; what the model holds is undefined until the next one.

        vLLM 0.32 has no such call, and refuses to start another update while it believes in this one.
        """
        self.weight_transfer_engine.abort()
        self.weight_transfer_engine.reset_weight_update_target()
        self._weight_update_active = False
