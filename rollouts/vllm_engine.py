"""vLLM behind the engine protocol: a driver (one engine, one thread) and a server (a thread that steps it).

In: token ids.  Out: token ids, log-probs, versions.  `EngineServer` runs inside a Ray actor made by `rollouts.pool`;
its clients are the episode workers, through submit and collect.

    worker ── submit(turns, releases) ──► inbox ─► admit at a step boundary ─► vLLM step ─► outbox ── collect ──► worker

In deterministic mode the engine sees the same requests in the same company on every run, which is what makes its
log-probs the same to the bit: an episode whose turn ended at step n is due `GRACE_STEPS` steps later, its next turn is
admitted exactly then, however early it came, and no step is made before it was asked for or the episode released.
Within those steps the engine works while the world answers.  Turns of one boundary enter in (episode, turn) order.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from envs.types import FinishReason, Routes
from rollouts.engine import Completion, EngineFailure, TurnRequest
from rollouts.routes import from_output

GRACE_STEPS = 1  # of the engine, that the world has for its answer before the engine waits for it


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Sizing of one vLLM engine, from `cluster.engine` in the config.

    `routes`: how the experts of sampled tokens are read: "" (not at all), "capture" (at the routers), "output" (vLLM
    returns them, on GPUs only).
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


class Driver(Protocol):
    """What a server steps.  All calls come from one thread."""

    def add(self, request: TurnRequest) -> None: ...

    def step(self) -> list[Completion]: ...

    @property
    def num_running(self) -> int: ...


class VllmDriver:
    """`LLMEngine` in this process, on this thread.  Every completion carries the version it was sampled under."""

    def __init__(self, settings: EngineSettings):
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(settings.cpu_cache_gib))
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        from vllm.config import WeightTransferConfig
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        from rollouts import routes, transfer

        transfer.register()
        self.version = -1
        self.checksum = ""
        self._requests: dict[str, TurnRequest] = {}
        self._routes = settings.routes
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
                weight_transfer_config=WeightTransferConfig(backend=transfer.BACKEND),
                worker_extension_cls=routes.EXTENSION,
                enable_return_routed_experts=settings.routes == "output",
                disable_log_stats=True,
                seed=0,
            )
        )
        self._engine.collective_rpc("init_weight_transfer_engine", kwargs={"init_info": {}})
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

    def load(self, path: str, num_tensors: int, version: int, checksum: str) -> None:
        """Take new weights; the version only moves when every parameter was loaded."""
        self.version = -1
        self._engine.collective_rpc("start_weight_update")
        update = {"path": path, "num_tensors": num_tensors}
        self._engine.collective_rpc("update_weights", kwargs={"update_info": update})
        self._engine.collective_rpc("finish_weight_update")
        self.reset_prefix_cache()
        self._engine.set_weight_version(str(version))
        self.version, self.checksum = version, checksum

    def reset_prefix_cache(self) -> None:
        """No new request may hit a cache block of other weights."""
        if not self._engine.reset_prefix_cache():
            raise EngineFailure("vLLM refused to reset its prefix cache (requests are still running)")


@dataclass(slots=True)
class _Client:
    outbox: list[Completion] = field(default_factory=list)
    outstanding: int = 0


class EngineServer:
    """One thread that owns a driver; any number of threads submit turns and collect completions.

    Raises EngineFailure to every caller once the stepping thread has died, with the text of what killed it.
    """

    def __init__(self, build: Callable[[], Any], *, deterministic: bool):
        self._deterministic = deterministic
        self._condition = threading.Condition()
        self._clients: dict[str, _Client] = {}
        self._owner: dict[int, str] = {}
        self._steps = 0  # of the engine; in deterministic mode also those that it skipped while nothing ran
        self._due: dict[int, int] = {}  # episode that has to say what it wants -> step before which it has to
        self._inbox: dict[int, list[TurnRequest]] = {}  # step before which they are admitted -> turns asked for
        self._jobs: queue.SimpleQueue[tuple[Callable[[Any], Any], Future[Any]]] = queue.SimpleQueue()
        self._error = ""
        self._stopping = False
        self.busy_seconds = 0.0
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(build, started), name="engine", daemon=True)
        self._thread.start()
        started.result()

    def open(self, episodes: Sequence[int]) -> None:
        """Announce episodes: in deterministic mode nothing is admitted before each has asked or been released."""
        with self._condition:
            if self._deterministic:
                self._due |= dict.fromkeys(episodes, self._steps)

    def submit(self, client: str, requests: Sequence[TurnRequest], released: Sequence[int]) -> None:
        """Hand in turns, and say which episodes ask for no more."""
        with self._condition:
            self._check()
            state = self._clients.setdefault(client, _Client())
            state.outstanding += len(requests)
            for request in requests:
                self._owner[request.episode] = client
                step = self._due.pop(request.episode, self._steps)
                self._inbox.setdefault(step, []).append(request)
            for episode in released:
                self._due.pop(episode, None)
                self._owner.pop(episode, None)
            self._condition.notify_all()

    def collect(self, client: str, timeout: float) -> list[Completion]:
        """Completions of this client's turns, as soon as there are any (empty after `timeout` seconds)."""
        with self._condition:
            state = self._clients.setdefault(client, _Client())
            self._condition.wait_for(lambda: state.outbox or self._error, timeout)
            self._check()
            out, state.outbox = state.outbox, []
            state.outstanding -= len(out)
            return out

    def run(self, function: Callable[[Any], Any], timeout: float | None = None) -> Any:
        """Call `function(driver)` on the stepping thread, between two steps, and return its result."""
        future: Future[Any] = Future()
        with self._condition:
            self._check()
            self._jobs.put((function, future))
            self._condition.notify_all()
        return future.result(timeout)

    def stop(self) -> None:
        with self._condition:
            self._stopping = True
            self._error = self._error or "engine was stopped"
            self._condition.notify_all()
        self._thread.join(timeout=10)

    def _check(self) -> None:
        if self._error:
            raise EngineFailure(self._error)

    def _run(self, build: Callable[[], Any], started: Future[None]) -> None:
        try:
            driver = build()
        except BaseException as error:
            self._error = f"engine did not start: {error}"
            started.set_exception(error)
            return
        started.set_result(None)
        try:
            while not self._stopping:
                self._boundary(driver)
        except BaseException:
            with self._condition:
                self._error = f"engine died:\n{traceback.format_exc(limit=-4)}"
                self._condition.notify_all()
        finally:
            self._cancel_jobs()

    def _boundary(self, driver: Any) -> None:
        """One turn of the stepping thread: jobs, admission, one engine step, delivery."""
        with self._condition:
            self._condition.wait_for(lambda: self._can_go_on(driver))
            if self._stopping:
                return
            jobs = [self._jobs.get() for _ in range(self._jobs.qsize())]
            waits = self._waits(driver)
            admitted = [] if waits else self._admit(driver)
        for function, future in jobs:
            self._run_job(function, future, driver)
        for request in sorted(admitted, key=lambda request: request.key):
            driver.add(request)
        if waits or not driver.num_running:
            return
        began = time.perf_counter()
        finished = driver.step()
        self.busy_seconds += time.perf_counter() - began
        self._steps += 1
        self._deliver(finished)

    def _can_go_on(self, driver: Any) -> bool:
        if self._stopping or not self._jobs.empty():
            return True
        return (bool(self._inbox) or driver.num_running > 0) and not self._waits(driver)

    def _waits(self, driver: Any) -> bool:
        """Whether an episode that is due before the next step has not yet said what it wants."""
        horizon = self._horizon(driver)
        return any(step <= horizon for step in self._due.values())

    def _horizon(self, driver: Any) -> int:
        """The step that comes next.  Where nothing runs, that of the first turns that are, or may be, asked for."""
        if driver.num_running:
            return self._steps
        return max(self._steps, min(itertools.chain(self._due.values(), self._inbox), default=self._steps))

    def _admit(self, driver: Any) -> list[TurnRequest]:
        self._steps = self._horizon(driver)
        ready = [step for step in self._inbox if step <= self._steps]
        return [request for step in ready for request in self._inbox.pop(step)]

    def _deliver(self, finished: list[Completion]) -> None:
        if not finished:
            return
        with self._condition:
            for completion in finished:
                if completion.episode not in self._owner:
                    continue  # released while it was sampled: its worker gave up
                self._clients[self._owner[completion.episode]].outbox.append(completion)
                if self._deterministic:
                    self._due[completion.episode] = self._steps + GRACE_STEPS
            self._condition.notify_all()

    @staticmethod
    def _run_job(function: Callable[[Any], Any], future: Future[Any], driver: Any) -> None:
        try:
            future.set_result(function(driver))
        except Exception as error:
            future.set_exception(error)

    def _cancel_jobs(self) -> None:
        while not self._jobs.empty():
            _, future = self._jobs.get()
            future.set_exception(EngineFailure(self._error))
