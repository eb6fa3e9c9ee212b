"""A taskset of `verifiers` with one file, as its users write them; needs that library, which is not ours.

Loaded by the helper process of `envs/adapters/examples/sums.yaml`.
"""

import random

import verifiers.v1 as vf

__all__ = ["SumsTaskset"]


class SumsData(vf.TaskData):
    answer: int


class SumsTask(vf.Task[SumsData]):
    @vf.reward(weight=0.9)
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == str(self.data.answer))

    @vf.reward(weight=0.1)
    async def digits(self, trace: vf.Trace) -> float:
        """The form: nothing but a whole number."""
        return float(trace.last_reply.isdecimal())


class SumsConfig(vf.TasksetConfig):
    num_tasks: int = 60
    largest: int = 99


class SumsTaskset(vf.Taskset[SumsTask, SumsConfig]):
    def load(self) -> list[SumsTask]:
        rng = random.Random(0)
        pairs = [(rng.randint(0, self.config.largest), rng.randint(0, 99)) for _ in range(self.config.num_tasks)]
        return [
            SumsTask(SumsData(prompt=f"{a} + {b} = ? Answer with the number only.", answer=a + b), self.config.task)
            for a, b in pairs
        ]
