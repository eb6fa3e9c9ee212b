"""Serves one taskset of `verifiers` (0.4, `verifiers.v1`) on stdin and stdout, one JSON line a request.

Run by `envs.adapters.tasksets` with the Python of another virtual environment, as a file: it imports nothing of this
project.  In: {"id", "method": "hello" | "task" | "score", …}.  Out: {"id", "result"} or {"id", "error"}.

The answers have a descriptor of their own; whatever the taskset prints goes to stderr.
"""

import asyncio
import itertools
import json
import math
import os
import sys
from typing import Any

PROTOCOL = 1


class Server:
    def __init__(self) -> None:
        self.vf: Any = None
        self.tasks: list[Any] = []

    def hello(self, request: dict[str, Any]) -> dict[str, Any]:
        """Imports the taskset.  Its size, at most `limit`, and what this adapter cannot offer, refused here."""
        import verifiers
        import verifiers.v1 as vf
        from verifiers.v1.utils.loaders import load_taskset, taskset_class, taskset_config_type

        self.vf = vf
        if request["folder"]:
            sys.path.insert(0, request["folder"])
        name = request["taskset"]
        kind = taskset_class(name)
        taskset = load_taskset(taskset_config_type(name)(id=name, **request["options"]))
        limit = request["limit"]
        if not taskset.bounded:
            taskset = taskset.take(limit)
        self.tasks = list(itertools.islice(iter(taskset), limit))
        if not self.tasks:
            raise ValueError("the taskset has no tasks")
        first = self.tasks[0]
        if type(first).NEEDS_CONTAINER:
            raise ValueError("its tasks need a container, which this adapter does not run")
        if kind.toolsets(taskset.config) or type(first).toolsets(first.config):
            raise ValueError("it has tool servers, which this adapter does not run")
        for hook in ("setup", "finalize"):
            if getattr(type(first), hook) is not getattr(vf.Task, hook):
                raise ValueError(f"its tasks have a {hook}() of their own, which needs a runtime")
        return {
            "protocol": PROTOCOL,
            "version": verifiers.__version__,
            "size": len(self.tasks),
            "rewards": self._rewards(first),
        }

    def _rewards(self, task: Any) -> list[str]:
        import inspect

        found = task.hooks("reward")
        for reward in found:
            if "runtime" in inspect.signature(reward).parameters:
                raise ValueError(f"its reward {reward.__name__} needs a runtime, which this adapter does not have")
        if not found and not task.plugged_judges():
            raise ValueError("its tasks have no @vf.reward")
        return [reward.__name__ for reward in found]

    def task(self, request: dict[str, Any]) -> dict[str, Any]:
        """Messages and data of one task."""
        data = self.tasks[request["index"]].data
        prompt = data.prompt
        if isinstance(prompt, str):
            messages = [{"role": "user", "text": prompt}]
        else:
            messages = [{"role": message.role, "text": _text(message.content)} for message in prompt or []]
        if data.system_prompt:
            messages.insert(0, {"role": "system", "text": data.system_prompt})
        return {"messages": messages, "data": data.model_dump(mode="json", exclude_none=True)}

    def score(self, request: dict[str, Any]) -> dict[str, list[float]]:
        """The rewards of one answer: {name: [score, weight]}."""
        vf, task = self.vf, self.tasks[request["index"]]
        from verifiers.v1.state import state_cls
        from verifiers.v1.trace import AgentInfo, Trace, TraceTask
        from verifiers.v1.types import AssistantMessage, SystemMessage, UserMessage

        trace = Trace(
            task=TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
            state=state_cls(type(task))(),
            agent=AgentInfo(config=vf.AgentConfig(), name="agent"),
        )
        kinds = {"system": SystemMessage, "user": UserMessage, "assistant": AssistantMessage}
        for message in self.task(request)["messages"]:
            self._add(trace, kinds[message["role"]](content=message["text"]))
        answer = AssistantMessage(content=request["answer"], reasoning_content=request["reasoning"] or None)
        self._add(trace, answer, sampled=True)
        trace.is_completed, trace.ok, trace.stop_condition = True, True, "agent_completed"
        asyncio.run(task.score(trace))
        rewards = {}
        for name, reward in trace.rewards.items():
            if reward is None or not math.isfinite(reward.value):
                raise ValueError(f"its reward {name} gave {reward}")
            rewards[name] = [reward.score, reward.weight]
        return rewards

    def _add(self, trace: Any, message: Any, sampled: bool = False) -> None:
        parent = len(trace.nodes) - 1 if trace.nodes else None
        trace.nodes.append(self.vf.MessageNode(parent=parent, message=message, sampled=sampled))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [part.text for part in content or [] if getattr(part, "type", "") == "text"]
    if len(parts) != len(content or []):
        raise ValueError("its prompt has parts that are no text")
    return "".join(parts)


def main() -> None:
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server = Server()
    methods = {"hello": server.hello, "task": server.task, "score": server.score}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"id": request["id"], "result": methods[request["method"]](request)}
        except Exception as problem:
            cause = problem.__cause__ or problem
            answer = {"id": request["id"], "error": f"{type(cause).__name__}: {cause}"}
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
