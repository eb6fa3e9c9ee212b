"""vLLM behind the engine protocol: one engine in this process, on the thread that calls it.

In: token ids.  Out: token ids, log-probs, versions, routes; weights by chunks.  Stepped by `rollouts.engine_server`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envs.types import FinishReason, Routes
from rollouts.engine import Completion, EngineFailure, TurnRequest
from rollouts.routes import from_output


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Sizing of one vLLM engine, from `cluster.engine` in the config.

    `routes`: how the experts of sampled tokens are read: "" (not at all), "capture" (at the routers), "output" (vLLM
    returns them, on GPUs only).  `transfer`: how weights come: "objects", "nccl" or "ipc".
    """

    model: str
    dtype: str
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    tensor_parallel_size: int
    gpu_memory_utilization: float
    cpu_cache_gib: int
    enforce_eager: bool
    enable_prefix_caching: bool
    routes: str = ""
    transfer: str = "objects"


class VllmDriver:
    """`LLMEngine` in this process, on this thread.  Every completion carries the version it was sampled under."""

    def __init__(self, settings: EngineSettings):
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(settings.cpu_cache_gib))
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        if settings.tensor_parallel_size > 1:
            bind_threads(settings.tensor_parallel_size)
        from vllm.config import WeightTransferConfig
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        from rollouts import extension

        self.version = -1
        self.checksum = ""
        self._requests: dict[str, TurnRequest] = {}
        self._routes = settings.routes
        self._updating = False
        self._engine = LLMEngine.from_engine_args(
            EngineArgs(
                model=settings.model,
                tokenizer=settings.model,
                skip_tokenizer_init=True,
                dtype=settings.dtype,
                load_format="dummy",
                max_model_len=settings.max_model_len,
                max_num_seqs=settings.max_num_seqs,
                max_num_batched_tokens=max(settings.max_num_batched_tokens, settings.max_model_len),
                enable_chunked_prefill=False,
                enable_prefix_caching=settings.enable_prefix_caching,
                tensor_parallel_size=settings.tensor_parallel_size,
                gpu_memory_utilization=settings.gpu_memory_utilization,
                enforce_eager=settings.enforce_eager,
                logprobs_mode="processed_logprobs",
                weight_transfer_config=WeightTransferConfig(backend=f"jointrl_{settings.transfer}"),
                worker_extension_cls=extension.EXTENSION,
                enable_return_routed_experts=settings.routes == "output",
                disable_log_stats=True,
                seed=0,
            )
        )
        if settings.transfer == "objects":
            self.connect({})
        if settings.routes:
            self._layers = self._engine.collective_rpc("routed_layers")[0]
        if settings.routes == "capture":
            self._engine.collective_rpc("start_route_capture")

    def add(self, request: TurnRequest) -> None:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        key = f"{request.episode}.{request.turn}"
        self._requests[key] = request
        sampling = request.sampling
        self._engine.add_request(
            key,
            {"prompt_token_ids": list(request.prompt_ids)},
            SamplingParams(
                temperature=sampling.temperature,
                max_tokens=sampling.max_tokens,
                seed=sampling.seed if sampling.temperature > 0 else None,
                stop_token_ids=list(sampling.stop_ids),
                logprobs=0,
                routed_experts_prompt_start=request.routes_from or 0,
                detokenize=False,
                output_kind=RequestOutputKind.FINAL_ONLY,
            ),
        )

    def step(self) -> list[Completion]:
        finished = [output for output in self._engine.step() if output.finished]
        routes = self._read_routes(finished) if finished and self._routes else {}
        return [self._completion(output, routes.get(output.request_id)) for output in finished]

    def _read_routes(self, finished: Sequence[Any]) -> dict[str, Routes]:
        """The experts of the turns that asked for them, by request."""
        spans = {}
        for output in finished:
            request = self._requests[output.request_id]
            if request.routes_from is not None:
                length = len(request.prompt_ids) + len(output.outputs[0].token_ids)
                spans[output.request_id] = (request.routes_from, length - 1)
        if self._routes == "capture":
            found: dict[str, Routes] = self._engine.collective_rpc("routes_of", args=(spans,))[0]
            return found
        rows = {output.request_id: output.outputs[0].routed_experts for output in finished}
        return {
            name: from_output(rows[name], self._layers, last - first)
            for name, (first, last) in spans.items()
            if rows[name] is not None
        }

    def complete(self, requests: Sequence[TurnRequest]) -> list[Completion]:
        """Sample these turns together, admitted in this order into an idle engine: the same bits every time."""
        assert not self._requests, "the engine has to be idle"
        self.reset_prefix_cache()
        for request in requests:
            self.add(request)
        found: dict[tuple[int, int], Completion] = {}
        while self._requests:
            for completion in self.step():
                found[completion.episode, completion.turn] = completion
        return [found[request.key] for request in requests]

    @property
    def num_running(self) -> int:
        return len(self._requests)

    def _completion(self, output: Any, routes: Routes | None) -> Completion:
        request = self._requests.pop(output.request_id)
        sampled = output.outputs[0]
        ids = list(sampled.token_ids)
        # The dict of a position holds the sampled token and maybe the most likely one: look it up by id.
        logprobs = [position[token].logprob for token, position in zip(ids, sampled.logprobs, strict=True)]
        if sampled.finish_reason not in ("stop", "length"):
            raise EngineFailure(f"episode {request.episode}: vLLM ended with reason {sampled.finish_reason!r}")
        # Judged by what was sampled: the engine stops on its own EOS too, which must then be one of ours.
        reason = FinishReason.STOP if ids and ids[-1] in request.sampling.stop_ids else FinishReason.LENGTH
        return Completion(
            episode=request.episode,
            turn=request.turn,
            token_ids=ids,
            logprobs=logprobs,
            versions=[self.version] * len(ids),
            finish_reason=reason,
            routes=routes,
        )

    def connect(self, init_info: dict[str, Any]) -> None:
        """Agree with the trainer on how weights will come."""
        self._engine.collective_rpc("init_weight_transfer_engine", kwargs={"init_info": init_info})

    def begin_update(self) -> None:
        """Weights will come in chunks, until `commit_update`.  EngineFailure where turns are running."""
        if self._requests:
            raise EngineFailure(f"weights cannot change while {len(self._requests)} turns are sampled")
        self.version, self.checksum = -1, ""
        self._engine.collective_rpc("start_weight_update")
        self._updating = True

    def load_chunk(self, path: str, num_tensors: int) -> None:
        """Load the tensors of one file."""
        self.update({"path": path, "num_tensors": num_tensors})

    def update(self, update_info: Any) -> None:
        """Take tensors in the backend's own way."""
        self._check_updating("a chunk of weights came")
        self._or_abort("update_weights", update_info=update_info)

    def commit_update(self, version: int, checksum: str) -> None:
        """The version only moves when every parameter was loaded."""
        self._check_updating("weights were committed")
        self._or_abort("finish_weight_update")
        self._updating = False
        self.reset_prefix_cache()
        self._engine.set_weight_version(str(version))
        self.version, self.checksum = version, checksum

    def abort_update(self) -> None:
        """Give up an update; the engine serves nothing until the next one."""
        if self._updating:
            self._updating = False
            self._engine.collective_rpc("abort_weight_update")

    def _or_abort(self, method: str, **arguments: Any) -> None:
        """Call all workers; where one fails, none goes on."""
        try:
            self._engine.collective_rpc(method, kwargs=arguments)
        except Exception:
            self.abort_update()
            raise

    def kernel_checksum(self) -> str:
        """Of the weights as every worker's kernels read them."""
        return "".join(self._engine.collective_rpc("kernel_checksum"))

    def _check_updating(self, what: str) -> None:
        if not self._updating:
            raise EngineFailure(f"{what}, but no update was begun")

    def reset_prefix_cache(self) -> None:
        """No new request may hit a cache block of other weights."""
        if not self._engine.reset_prefix_cache():
            raise EngineFailure("vLLM refused to reset its prefix cache (requests are still running)")


def bind_threads(num_workers: int) -> None:
    """Give each of a CPU engine's tensor-parallel workers its own cores: vLLM wants a NUMA node each by itself.

    Nothing where the user has said it (VLLM_CPU_OMP_THREADS_BIND).  Raises EngineFailure with fewer cores than workers.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < num_workers:
        raise EngineFailure(
            f"tensor_parallel_size={num_workers} needs as many cores, this process may use {len(cores)}"
        )
    shares = (cores[number * len(cores) // num_workers :][: len(cores) // num_workers] for number in range(num_workers))
    os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "|".join(",".join(map(str, share)) for share in shares))
