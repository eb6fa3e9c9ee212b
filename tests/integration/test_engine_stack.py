"""A real vLLM engine behind our driver and server: log-probs, reloads, refused publishes, order of requests."""

from __future__ import annotations

import dataclasses
import functools
import gc
import json
import multiprocessing
import random
import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor

from envs.types import Routes
from rollouts.engine import Completion, EngineFailure, SamplingParams, TurnRequest
from rollouts.engine_actor import EngineActor, EngineReport
from rollouts.engine_server import EngineServer
from rollouts.routes import decode
from rollouts.vllm_engine import EngineSettings, VllmDriver
from tests.integration.tiny import (
    CHARACTERS,
    EOS,
    continuation_logprobs,
    decoded,
    masters,
    own_experts,
    shard_of,
    tiny_config,
    transformers_model,
    write_folder,
)
from train import launch
from train.weights import formats
from train.weights.publish import Base, PublishFailure, Receiver, Shard, make_shard

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

AMX = bool(torch.cpu._is_amx_tile_supported())
# Nats, mean: another kernel in the same precision, or bf16 arithmetic.
BOUND = 1e-4 if launch.engine_dtype(tiny_config()) == "float32" else 2e-3
Result = list[tuple[list[int], list[float]]]


def requests(count: int = 24, temperature: float = 1.0) -> list[TurnRequest]:
    rng = random.Random(7)
    return [
        TurnRequest(
            episode=number,
            turn=0,
            prompt_ids=(1, *(rng.randrange(*CHARACTERS) for _ in range(rng.randrange(4, 40)))),
            sampling=SamplingParams(temperature=temperature, max_tokens=24, seed=100 + number, stop_ids=(EOS,)),
        )
        for number in range(count)
    ]


def served(seed: int, format: str = "mxfp4") -> dict[str, Tensor]:
    return formats.serve_all(masters(seed), format)


def result(completions: Sequence[Completion]) -> Result:
    return [(completion.token_ids, completion.logprobs) for completion in completions]


def settings_for(folder: Path, format: str) -> EngineSettings:
    config = tiny_config()
    directory = launch.write_engine_folder(folder / "model", folder / f"engine-{format}", format)
    return launch.engine_settings(config, directory)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tiny")
    write_folder(root / "model")
    return root


def first_load(settings: EngineSettings, seed: int, shard_format: str, format: str) -> Result:
    """What a new engine makes of `requests()` when these weights are the first that it ever loads."""
    driver = VllmDriver(settings)
    load(driver, seed, 1, shard_format, format)
    found = result(driver.complete(requests()))
    del driver
    gc.collect()
    return found


def load(driver: VllmDriver, seed: int, version: int, shard_format: str, format: str) -> None:
    receiver = Receiver(format, delta=False)
    receiver.begin(version, 1)
    ready = receiver.take([shard_of(served(seed, shard_format), version)])
    driver.begin_update()
    driver.load_chunk(ready.path, ready.num_tensors)
    driver.commit_update(version, receiver.finish()[0])
    Path(ready.path).unlink()


def publish(engine: EngineActor, *shards: Shard) -> EngineReport:
    """A version in one chunk."""
    engine.begin_publish(shards[0].version, 1)
    assert engine.take_chunk(*shards).is_loaded
    return engine.commit_publish()


@pytest.fixture(scope="module")
def fresh(folder: Path) -> Iterator[Callable[[int, str], Result]]:
    """Results of first loads, made in another process (vLLM's groups are one a process), one new engine each."""
    cases = [(1, "mxfp4"), (2, "mxfp4"), (3, "mxfp4"), (5, "bf16")]
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        settings = settings_for(folder, "bf16")
        futures = {case: executor.submit(first_load, settings, *case, "bf16") for case in cases}
        yield lambda seed, shard_format: futures[seed, shard_format].result(240)


@pytest.fixture(scope="module")
def engine(folder: Path, fresh: Callable[[int, str], Result]) -> Iterator[EngineActor]:
    """The engine actor's own class, in this process: a server thread, a driver, and publishing."""
    actor = EngineActor(settings_for(folder, "bf16"), True, functools.partial(Receiver, "bf16", delta=True))
    yield actor
    actor.stop()


def gaps(completions: Sequence[Completion], model: torch.nn.Module, asked: Sequence[TurnRequest]) -> list[float]:
    """|log p_engine - log p_transformers| of every sampled token, both at the temperature that was asked for."""
    found = []
    for request, completion in zip(asked, completions, strict=True):
        temperature = request.sampling.temperature
        expected = continuation_logprobs(model, request.prompt_ids, completion.token_ids, temperature)
        found += [abs(a - b) for a, b in zip(completion.logprobs, expected, strict=True)]
    return found


def test_log_probs_are_those_of_the_dequantised_weights(engine: EngineActor) -> None:
    report = publish(engine, shard_of(served(1), 4))
    assert report.version == 4 and engine.digests().keys() == served(1).keys()
    completions = engine.complete(requests())
    assert {version for completion in completions for version in completion.versions} == {4}
    found = gaps(completions, transformers_model(decoded(masters(1))), requests())
    assert len(found) > 300 and statistics.mean(found) < BOUND
    # The values matter: the masters themselves give other log-probs.
    unquantised = gaps(completions, transformers_model(served(1, "bf16")), requests())
    assert statistics.mean(unquantised) > 5 * BOUND


def test_a_temperature_gives_log_probs_of_the_tempered_distribution(engine: EngineActor) -> None:
    publish(engine, shard_of(served(1), 5))
    asked = requests(temperature=0.7)
    completions = engine.complete(asked)
    model = transformers_model(decoded(masters(1)))
    assert statistics.mean(gaps(completions, model, asked)) < BOUND
    assert statistics.mean(gaps(completions, model, requests())) > 0.1


def test_reloads_equal_a_first_load_to_the_bit(engine: EngineActor, fresh: Callable[[int, str], Result]) -> None:
    """STACK: a reload that is silently wrong.  Every version of quantised weights, in a row, other requests between."""
    found = {}
    for version, seed in enumerate((1, 2, 3), start=10):
        publish(engine, shard_of(served(seed), version))
        found[seed] = result(engine.complete(requests()))
        engine.complete(requests(5, temperature=0.3))
        assert result(engine.complete(requests())) == found[seed]
    assert found[1] != found[2] != found[3]
    for seed, reloaded in found.items():
        assert reloaded == fresh(seed, "mxfp4")
    publish(engine, shard_of(served(1), 13))
    assert result(engine.complete(requests())) == found[1]


def test_unquantised_experts_survive_reloads(engine: EngineActor, fresh: Callable[[int, str], Result]) -> None:
    """quant=none: shards in bf16; vLLM 0.32 skips the prepack of unquantised experts on a reload."""
    for version, seed in enumerate((4, 5), start=20):
        publish(engine, shard_of(served(seed, "bf16"), version))
        completions = engine.complete(requests())
        model = transformers_model(served(seed, "bf16"))
        assert statistics.mean(gaps(completions, model, requests())) < BOUND
    assert result(completions) == fresh(5, "bf16")


def second_turn(request: TurnRequest, completion: Completion) -> TurnRequest:
    prompt = (*request.prompt_ids, *completion.token_ids, 4, 30)
    return dataclasses.replace(request, turn=1, prompt_ids=prompt)


def play(server: EngineServer, order: Sequence[int], cut: int) -> dict[tuple[int, int], tuple[list[int], list[float]]]:
    """Two turns of every episode, handed in in this order and in messages of `cut`; even episodes have one turn."""
    asked = {request.episode: request for request in requests()}
    server.run(lambda driver: driver.reset_prefix_cache())
    server.open(sorted(asked))
    for first in range(0, len(order), cut):
        server.submit("worker", [asked[episode] for episode in order[first : first + cut]], [])
    found: dict[tuple[int, int], tuple[list[int], list[float]]] = {}
    while len(found) < len(asked) + len(asked) // 2:
        completions = server.collect("worker", 60)
        assert completions, "the engine gave nothing within a minute"
        rank = {episode: position for position, episode in enumerate(order)}
        for completion in sorted(completions, key=lambda item: rank[item.episode]):
            found[completion.episode, completion.turn] = (completion.token_ids, completion.logprobs)
            more = completion.turn == 0 and completion.episode % 2
            turns = [second_turn(asked[completion.episode], completion)] if more else []
            server.submit("worker", turns, [] if more else [completion.episode])
    return found


def test_the_order_of_submission_changes_no_bit(engine: EngineActor) -> None:
    publish(engine, shard_of(served(2), 30))
    order = list(range(len(requests())))
    reference = play(engine._server, order, cut=len(order))
    shuffled = random.Random(1).sample(order, len(order))
    assert play(engine._server, shuffled, cut=5) == reference
    assert play(engine._server, order[::-1], cut=1) == reference
    assert len(reference) == 36


def test_routes_are_those_of_every_position(folder: Path) -> None:
    """Prompts, turns after the first, positions out of the prefix cache, turns that were cut."""
    settings = dataclasses.replace(settings_for(folder, "bf16"), routes="capture")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        plays = executor.submit(routed_turns, settings).result(240)
    model = transformers_model(decoded(masters(1)))
    differing = total = 0
    for ids, first, routes, cached in plays:
        found = torch.from_numpy(decode(routes).astype("int64")).sort(-1).values
        expected = own_experts(model, ids)[first : len(ids) - 1]
        assert routes.layers == tuple(range(model.config.num_hidden_layers)) and found.shape == expected.shape
        differing += int((found != expected).any(-1).sum())
        total += expected.shape[0] * expected.shape[1]
        assert cached in (0, 1)
    assert sum(cached for *_, cached in plays) == 24
    # Two kernels round differently, which may turn a near tie; a shift by one position would differ nearly everywhere.
    assert total > 5000 and differing <= total // 1000


def routed_turns(settings: EngineSettings) -> list[tuple[list[int], int, Routes, int]]:
    """Two turns of each request, then the first ones again on a warm cache: ids, first position, routes, and whether
    the prompt was in the prefix cache."""
    driver = VllmDriver(settings)
    load(driver, 1, 1, "mxfp4", "bf16")
    asked = [dataclasses.replace(request, routes_from=0) for request in long_requests()]
    first = driver.complete(asked)
    later = [
        dataclasses.replace(
            second_turn(request, completion), routes_from=len(request.prompt_ids) + len(completion.token_ids) - 1
        )
        for request, completion in zip(asked, first, strict=True)
    ]
    plays = _routed(driver, later, first_is_cached=False)
    again = [dataclasses.replace(request, episode=100 + request.episode) for request in asked]
    plays += _routed(driver, again, first_is_cached=True)
    plays += [_play(request, completion, 0) for request, completion in zip(asked, first, strict=True)]
    del driver
    gc.collect()
    return plays


def _routed(
    driver: VllmDriver, asked: Sequence[TurnRequest], first_is_cached: bool
) -> list[tuple[list[int], int, Routes, int]]:
    """Without the reset of the prefix cache that `complete` begins with."""
    for request in asked:
        driver.add(request)
    done: dict[tuple[int, int], Completion] = {}
    while len(done) < len(asked):
        done |= {(item.episode, item.turn): item for item in driver.step()}
    return [_play(request, done[request.key], int(first_is_cached)) for request in asked]


def _play(request: TurnRequest, completion: Completion, cached: int) -> tuple[list[int], int, Routes, int]:
    assert completion.routes is not None and request.routes_from is not None
    return [*request.prompt_ids, *completion.token_ids], request.routes_from, completion.routes, cached


def long_requests() -> list[TurnRequest]:
    """Prompts of several cache blocks, half of them with a common beginning."""
    rng = random.Random(3)
    common = tuple(rng.randrange(*CHARACTERS) for _ in range(70))
    found = []
    for request in requests():
        own = tuple(rng.randrange(*CHARACTERS) for _ in range(70))
        found.append(
            dataclasses.replace(request, prompt_ids=(*(common if request.episode % 2 else own), *request.prompt_ids))
        )
    return found


def without(shard: Shard, name: str) -> Shard:
    tensors = {other: tensor for other, tensor in served(2).items() if other != name}
    return dataclasses.replace(shard_of(tensors, shard.version), names_digest=shard.names_digest)


def test_a_refused_publish_leaves_the_engine_as_it_was(engine: EngineActor) -> None:
    good = shard_of(served(2), 40)
    publish(engine, good)
    before = result(engine.complete(requests()))
    payload = bytearray(good.payload)
    payload[-1] ^= 1
    name = "model.layers.1.mlp.experts.3.up_proj.weight_scale"
    stale = [dataclasses.replace(good, num_ranks=2), dataclasses.replace(good, num_ranks=2, rank=1, version=39)]
    for shards, says in (
        ([without(good, name)], "are not the model's"),
        ([dataclasses.replace(good, payload=bytes(payload))], "from rank 0 does not match its checksum"),
        (stale, r"versions \[39, 40\] were mixed"),
    ):
        with pytest.raises(PublishFailure, match=says):
            publish(engine, *shards)
        assert engine.report().version == 40
    assert result(engine.complete(requests())) == before
    assert publish(engine, shard_of(served(3), 41)).version == 41
    assert (
        statistics.mean(gaps(engine.complete(requests()), transformers_model(decoded(masters(3))), requests())) < BOUND
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("lm_head.weight", r"got no weights, the first are \['lm_head.weight'\]"),
        ("model.norm.weight", r"got no weights, the first are \['model.norm.weight'\]"),
        # Fused in the engine, which calls them loaded when one part came.
        ("model.layers.1.self_attn.k_proj.weight", r"1 parts .* \['model.layers.1.self_attn.k_proj.weight'\]"),
        ("model.layers.0.mlp.experts.5.down_proj.weight", r"1 parts .*\.experts\.5\.down_proj\.weight'\]"),
        ("model.layers.1.mlp.experts.0.up_proj.weight", r"1 parts .*\.experts\.0\.up_proj\.weight'\]"),
    ],
)
def test_a_parameter_without_weights_is_named_and_the_version_disowned(
    engine: EngineActor, name: str, says: str
) -> None:
    """F54: a whole version by its checksums, but not by what the engine has."""
    tensors = {other: tensor for other, tensor in served(2, "bf16").items() if other != name}
    with pytest.raises(RuntimeError, match=says):
        publish(engine, shard_of(tensors, 50))
    assert engine.report().version == -1
    assert publish(engine, shard_of(served(2), 51)).version == 51
    found = gaps(engine.complete(requests()), transformers_model(decoded(masters(2))), requests())
    assert statistics.mean(found) < BOUND


@pytest.mark.skipif(not AMX, reason="vLLM's MXFP4 kernel for CPUs needs AMX, which this one lacks")
def test_native_mxfp4_reloads_equal_a_first_load(folder: Path) -> None:
    settings = settings_for(folder, "mxfp4")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        reloaded = executor.submit(reload_natively, settings).result(240)
        assert reloaded == executor.submit(first_load, settings, 3, "mxfp4", "mxfp4").result(240)


def reload_natively(settings: EngineSettings) -> Result:
    driver = VllmDriver(settings)
    for version, seed in enumerate((1, 2, 3)):
        load(driver, seed, version, "mxfp4", "mxfp4")
        completions = driver.complete(requests())
        assert statistics.mean(gaps(completions, transformers_model(decoded(masters(seed))), requests())) < 2e-3
    del driver
    gc.collect()
    return result(completions)


# --- chunks, patches, and the rest of what an engine takes -------------------------------------------------------


def in_chunks(seed: int, version: int, num_chunks: int, base: Base | None = None) -> list[Shard]:
    """A version as one rank's shards of every chunk."""
    values = masters(seed)
    counts = {name: len(value) if formats.is_expert(name) else 0 for name, value in values.items()}
    plan = formats.plan_chunks(values, num_chunks)
    return [
        make_shard(
            formats.serve_all({name: values[name] for name in names}, "mxfp4"),
            version=version,
            rank=0,
            num_ranks=1,
            expected=formats.expected_names({name: counts[name] for name in names}, "mxfp4"),
            chunk=chunk,
            num_chunks=len(plan),
            base=base,
        )
        for chunk, names in enumerate(plan)
    ]


def publish_chunks(engine: EngineActor, shards: Sequence[Shard]) -> EngineReport:
    engine.begin_publish(shards[0].version, len(shards))
    for shard in shards:
        assert engine.take_chunk(shard).is_loaded
    return engine.commit_publish()


def test_the_number_of_chunks_and_a_second_publish_change_nothing(
    engine: EngineActor, fresh: Callable[[int, str], Result]
) -> None:
    reports = []
    for version, num_chunks in enumerate((0, 1, 2, 7, 7), start=60):
        reports.append(publish_chunks(engine, in_chunks(2, version, num_chunks)))
        assert result(engine.complete(requests())) == fresh(2, "mxfp4")
    assert len({report.checksum for report in reports}) == len({report.kernel_checksum for report in reports}) == 1
    other = publish_chunks(engine, in_chunks(3, 65, 2))
    assert other.kernel_checksum != reports[0].kernel_checksum and other.checksum != reports[0].checksum


def test_patches_give_the_weights_that_a_full_publish_gives(
    engine: EngineActor, fresh: Callable[[int, str], Result]
) -> None:
    base = Base()
    full = publish_chunks(engine, in_chunks(2, 70, 2, base))
    same = in_chunks(2, 71, 2, base)
    assert sum(len(shard.payload) for shard in same) < 0.6 * sum(shard.full_bytes for shard in same)
    again = publish_chunks(engine, same)
    assert again.version == 71 and (again.checksum, again.kernel_checksum) == (full.checksum, full.kernel_checksum)
    assert result(engine.complete(requests())) == fresh(2, "mxfp4")
    # The engine missed what the trainer sent in between: it asks for the chunks in full, and then has them.
    in_chunks(3, 72, 2, base)
    engine.begin_publish(73, 2)
    for patched, whole in zip(in_chunks(1, 73, 2, base), in_chunks(1, 73, 2), strict=True):
        if not engine.take_chunk(patched).is_loaded:
            assert engine.take_chunk(whole).is_loaded
    assert engine.commit_publish().version == 73
    assert result(engine.complete(requests())) == fresh(1, "mxfp4")


def test_a_publish_that_stops_half_way_leaves_nothing_behind(
    engine: EngineActor, fresh: Callable[[int, str], Result]
) -> None:
    first, second = in_chunks(3, 80, 2)
    engine.begin_publish(80, 2)
    engine.take_chunk(first)
    with pytest.raises(PublishFailure, match=r"chunks \[1\] of 2 did not come"):
        engine.commit_publish()
    assert engine.report().version == -1
    with pytest.raises(EngineFailure, match="no publish was begun"):
        engine.take_chunk(second)
    engine.begin_publish(81, 2)
    engine.take_chunk(dataclasses.replace(first, version=81))
    report = publish_chunks(engine, in_chunks(2, 82, 2))  # the driver gave up 81 and begins again
    assert report.version == 82 and result(engine.complete(requests())) == fresh(2, "mxfp4")


def tied(folder: Path) -> tuple[EngineSettings, dict[str, Tensor], list[TurnRequest]]:
    """The tiny model with its head tied to its embeddings, without a tensor of its own for the head."""
    settings = settings_for(folder, "bf16")
    directory = folder / "engine-tied"
    shutil.copytree(settings.model, directory, dirs_exist_ok=True)
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    values = {name: value for name, value in masters(1).items() if name != "lm_head.weight"}
    return dataclasses.replace(settings, model=str(directory)), formats.serve_all(values, "mxfp4"), requests()


def tied_completions(settings: EngineSettings, tensors: dict[str, Tensor]) -> list[Completion]:
    driver = VllmDriver(settings)
    for version in (1, 2):
        receiver = Receiver("bf16", delta=False)
        receiver.begin(version, 1)
        ready = receiver.take([shard_of(tensors, version)])
        driver.begin_update()
        driver.load_chunk(ready.path, ready.num_tensors)
        driver.commit_update(version, receiver.finish()[0])
        Path(ready.path).unlink()
    return driver.complete(requests())


def test_tied_embeddings_are_published_once_and_used_twice(folder: Path) -> None:
    settings, tensors, asked = tied(folder)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        completions = executor.submit(tied_completions, settings, tensors).result(240)
    values = decoded(masters(1))
    model = transformers_model(values | {"lm_head.weight": values["model.embed_tokens.weight"]})
    assert statistics.mean(gaps(completions, model, asked)) < BOUND


def parallel_completions(settings: EngineSettings, seeds: Sequence[int]) -> tuple[list[Completion], str]:
    """What an engine of two processes makes of `requests()` after these weights, one after the other."""
    driver = VllmDriver(settings)
    for version, seed in enumerate(seeds):
        load(driver, seed, version, "mxfp4", "bf16")
    completions = driver.complete([dataclasses.replace(request, routes_from=0) for request in requests()])
    return completions, driver.kernel_checksum()


def test_a_tensor_parallel_engine_reloads_like_a_fresh_one(folder: Path) -> None:
    """Two processes, each with its own cores and its half of every weight; routes come from the first."""
    settings = dataclasses.replace(settings_for(folder, "bf16"), tensor_parallel_size=2, routes="capture")
    found = []
    for seeds in ((1,), (3, 2, 1)):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
            found.append(executor.submit(parallel_completions, settings, seeds).result(240))
    (one, checksum), (other, reloaded) = found
    assert result(one) == result(other) and checksum == reloaded
    assert [item.routes for item in one] == [item.routes for item in other]
    model = transformers_model(decoded(masters(1)))
    assert statistics.mean(gaps(one, model, requests())) < BOUND
    routes = one[0].routes
    assert routes is not None
    ids = [*requests()[0].prompt_ids, *one[0].token_ids]
    expected = own_experts(model, ids)[:-1]
    assert torch.equal(torch.from_numpy(decode(routes).astype("int64")).sort(-1).values, expected)
