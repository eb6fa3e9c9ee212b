"""Speaks the protocol of `envs/adapters/tasksets_server.py` without `verifiers`, and misbehaves on request."""

import json
import os
import sys
import time

MOOD = os.environ.get("STAND_IN_MOOD", "")


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        answer: dict[str, object] = {"id": request["id"]}
        if request["method"] == "hello":
            if MOOD == "refuses":
                answer["error"] = "ModuleNotFoundError: No module named 'nobody'"
            else:
                protocol = 99 if MOOD == "old" else 1
                answer["result"] = {"protocol": protocol, "version": "0.0", "size": 40, "rewards": ["right"]}
        elif request["method"] == "task":
            number = request["index"]
            messages = [{"role": "system", "text": "Add."}, {"role": "user", "text": f"{number}+1?"}]
            answer["result"] = {"messages": messages, "data": {"answer": number + 1}}
        else:
            _misbehave(request["answer"])
            right = request["answer"] == str(request["index"] + 1)
            score = 7.0 if request["answer"] == "huge" else float(right)
            answer["result"] = {"right": [score, 1.0]}
            if request["answer"] == "raise":
                answer = {"id": request["id"], "error": "ZeroDivisionError: division by zero"}
        print(json.dumps(answer), flush=True)


def _misbehave(answer: str) -> None:
    if answer == "die":
        print("last words", file=sys.stderr, flush=True)
        os._exit(3)
    if answer == "hang":
        time.sleep(60)
    if answer == "babble":
        print("hello there", flush=True)


if __name__ == "__main__":
    main()
