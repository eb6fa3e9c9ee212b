"""Solutions that must be fast, and whole programs from standard input to standard output.

In: a random stream and the settings of a level.  Out: a `Question` answered by Python source, and its judge.  Called by
`envs.families.code`.
"""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from typing import Any

from envs import sandbox
from envs.families.code.common import (
    NAMES,
    PROGRAMS,
    PYTHON_ANSWER,
    WORDS,
    fenced,
    numbers,
    own_function,
    passes_cases,
    results,
    source_of,
)
from envs.sandbox import PYTHON, Limits, Programs, SandboxDown
from envs.skills import Question
from envs.types import Task

# ---- fast solutions --------------------------------------------------------------------------------------------------

# words, fast reference, slow reference (for small inputs only: it says what the fast one must give)
FAST = (
    (
        "Return the number of pairs of positions i < j with (values[i] + values[j]) divisible by {m}.",
        "    seen, pairs = {{}}, 0\n    for v in values:\n        pairs += seen.get(-v % {m}, 0)\n"
        "        seen[v % {m}] = seen.get(v % {m}, 0) + 1\n    return pairs\n",
        "    n = len(values)\n    return sum((values[i] + values[j]) % {m} == 0 for i in range(n) for j in "
        "range(i + 1, n))\n",
    ),
    (
        "Return the list that holds, for each position i, the largest of the values at the positions from "
        "max(0, i - {w} + 1) to "
        "i.",
        "    from collections import deque\n    best, out = deque(), []\n    for i, v in enumerate(values):\n"
        "        while best and values[best[-1]] <= v:\n            best.pop()\n        best.append(i)\n"
        "        if best[0] <= i - {w}:\n            best.popleft()\n        out.append(values[best[0]])\n    "
        "return out\n",
        "    return [max(values[max(0, i - {w} + 1):i + 1]) for i in range(len(values))]\n",
    ),
    (
        "Return the number of contiguous parts of `values` (of at least one element) whose sum is exactly {t}.",
        "    seen, total, count = {{0: 1}}, 0, 0\n    for v in values:\n        total += v\n"
        "        count += seen.get(total - {t}, 0)\n        seen[total] = seen.get(total, 0) + 1\n    return count\n",
        "    n = len(values)\n    return sum(sum(values[i:j]) == {t} for i in range(n) for j in range(i + 1, n + 1))\n",
    ),
    (
        "Return the list that holds, for each position i, how many positions further the next value is that "
        "exceeds values[i] "
        "by at least {d}, or 0 if there is none.",
        "    import heapq\n    out, waiting = [0] * len(values), []\n    for i, v in enumerate(values):\n"
        "        while waiting and waiting[0][0] + {d} <= v:\n            _, j = heapq.heappop(waiting)\n"
        "            out[j] = i - j\n        heapq.heappush(waiting, (v, i))\n    return out\n",
        "    n = len(values)\n    return [next((j - i for j in range(i + 1, n) if values[j] >= values[i] + {d}), 0) "
        "for i in range(n)]\n",
    ),
    (
        "Return the number of pairs of positions i < j with values[i] > values[j] + {d}.",
        "    import bisect\n    order, count = sorted(set(values)), 0\n    tree = [0] * (len(order) + 1)\n"
        "    for n, v in enumerate(values):\n        at, below = bisect.bisect_right(order, v + {d}), 0\n"
        "        while at:\n            below += tree[at]\n            at &= at - 1\n        count += n - below\n"
        "        at = bisect.bisect_left(order, v) + 1\n        while at <= len(order):\n            tree[at] += 1\n"
        "            at += at & -at\n    return count\n",
        "    n = len(values)\n    return sum(values[i] > values[j] + {d} for i in range(n) for j in range(i + 1, n))\n",
    ),
    (
        "Return the length of the longest contiguous part of `values` in which no value occurs more than {c} times.",
        "    seen, start, best = {{}}, 0, 0\n    for i, v in enumerate(values):\n        seen[v] = seen.get(v, 0) + 1\n"
        "        while seen[v] > {c}:\n            seen[values[start]] -= 1\n            start += 1\n"
        "        best = max(best, i - start + 1)\n    return best\n",
        "    n = len(values)\n    return max((j - i for i in range(n) for j in range(i + 1, n + 1) "
        "if max(map(values[i:j].count, values[i:j])) <= {c}), default=0)\n",
    ),
)
FAST_PROGRAMS = Programs(limits=Limits(wall_seconds=8, cpu_seconds=3, memory_mib=512, output_bytes=8_000_000))


def _fast_sources(name: str, kind: int, fill: dict[str, int]) -> tuple[str, str]:
    _, fast, slow = FAST[kind]
    return f"def {name}(values):\n{fast.format(**fill)}", f"def {name}(values):\n{slow.format(**fill)}"


def ask_fast(rng: random.Random, *, size: int, kinds: tuple[int, ...]) -> Question:
    """A function for a list so long that trying all pairs takes too much time."""
    name, kind = rng.choice(NAMES), rng.choice(kinds)
    fill = {
        "m": rng.randint(5, 300), "w": size // rng.randint(3, 6), "t": rng.randint(-20, 20), "d": rng.randint(0, 40),
        "c": rng.randint(1, 4),
    }  # fmt: skip
    if kind == 1:
        fill["w"] = rng.randint(size // 6, size // 3)
    fast, slow = _fast_sources(name, kind, fill)
    small = [[numbers(rng, -15, 30, 12, 4)] for _ in range(8)] + [[[]]]
    cases = results(slow, name, small)
    shown = "\n".join(f"{name}({inputs[0]!r}) == {expected!r}" for inputs, expected in cases[:2])
    text = (
        f"Write a Python function `{name}(values)`. `values` is a list of up to {size:,} whole numbers of at "
        "most 10**6 in size. "
        f"{FAST[kind][0].format(**fill)}\n\nThe function must be fast enough for lists of that length: all "
        "tests together have "
        f"{FAST_PROGRAMS.limits.cpu_seconds:g} seconds of CPU time.\n\nExamples:\n{shown}\n\n{PYTHON_ANSWER}"
    )
    facts = {"name": name, "cases": cases, "kind": kind, "fill": fill, "size": size, "seed": rng.randrange(10**9)}
    return Question(text, fenced(fast), facts)


def large_values(kind: int, size: int, seed: int) -> list[list[int]]:
    """Inputs that are the worst for the obvious slow solutions: few matches, long descents, many different values."""
    rng = random.Random(seed)
    wide = [rng.randint(-(10**6), 10**6) for _ in range(size)]
    falling = sorted((rng.randint(-(10**6), 10**6) for _ in range(size)), reverse=True)
    return [wide, falling]


def judge_fast(answer: str, task: Task) -> float:
    """The small hidden tests and large ones, in one run with its CPU limit."""
    facts = task.metadata
    fast, _ = _fast_sources(facts["name"], facts["kind"], dict(facts["fill"]))
    reference = own_function(fast, facts["name"])
    large = [
        ([values], reference(list(values))) for values in large_values(facts["kind"], facts["size"], facts["seed"])
    ]
    return passes_cases(source_of(answer), facts["name"], [*facts["cases"], *large], FAST_PROGRAMS.limits)


# ---- whole programs --------------------------------------------------------------------------------------------------

# words on input and output, and the lines of the program
STDIN_TASKS = (
    (
        "The first line holds a whole number n, the second line n whole numbers. Print their mean and their "
        "{which} absolute deviation from the mean, separated by a space (real numbers).",
        "n = int(input())\nv = list(map(int, input().split()))\nm = sum(v) / n\nd = [abs(x - m) for x in v]\n"
        "print(m, {code})\n",
        "list",
    ),
    (
        "The first line holds n and k, the second line n whole numbers. Print {order} the k largest of them on "
        "one line, separated "
        "by spaces, and on a second line their sum.",
        "n, k = map(int, input().split())\nv = sorted(map(int, input().split()), reverse=True)[:k]\n"
        "print(*({flip}))\nprint(sum(v))\n",
        "list_k",
    ),
    (
        "The first line holds a whole number n; each of the next n lines holds a name and an amount, separated "
        "by a space. For each "
        "name print a line with the name and the sum of its amounts{minimum}, names in {by} order.",
        "n = int(input())\nt = {{}}\nfor _ in range(n):\n    k, a = input().split()\n    t[k] = t.get(k, 0) + int(a)\n"
        "for k in {sorted}:\n    if t[k] >= {low}:\n        print(k, t[k])\n",
        "names",
    ),
    (
        "The first line holds h and w. Each of the next h lines is a row of w characters, '#' for wall and '.' "
        "for floor. Cells are "
        "neighbours {how}. Print the number of connected areas of floor and the size of the largest one (0 if "
        "there is none), "
        "separated by a space.",
        "h, w = map(int, input().split())\ng = [input() for _ in range(h)]\nseen = set()\nsizes = [0]\n"
        "for a in range(h):\n    for b in range(w):\n        if g[a][b] == '.' and (a, b) not in seen:\n"
        "            todo, size = [(a, b)], 0\n            seen.add((a, b))\n            while todo:\n"
        "                y, x = todo.pop()\n                size += 1\n                for dy in (-1, 0, 1):\n"
        "                    for dx in (-1, 0, 1):\n                        if {skip}:\n                       "
        "     continue\n"
        "                        p = (y + dy, x + dx)\n"
        "                        if 0 <= p[0] < h and 0 <= p[1] < w and g[p[0]][p[1]] == '.' and p not in seen:\n"
        "                            seen.add(p)\n                            todo.append(p)\n"
        "            sizes.append(size)\nprint(len(sizes) - 1, max(sizes))\n",
        "grid",
    ),
    (
        "Each line up to the end of the input holds a command: 'push x' with a whole number, 'pop', or '{op}'. "
        "Begin with an empty "
        "stack; 'pop' prints the number it removes, or 'empty'; '{op}' prints {what} the numbers on the stack, "
        "or 'empty'.",
        "import sys\ns = []\nfor line in sys.stdin:\n    c = line.split()\n    if not c:\n        continue\n"
        "    if c[0] == 'push':\n        s.append(int(c[1]))\n    elif c[0] == 'pop':\n        print(s.pop() "
        "if s else 'empty')\n"
        "    else:\n        print({fun}(s) if s else 'empty')\n",
        "stack",
    ),
    (
        "The first line holds n and q, the second line n whole numbers. Each of the next q lines holds l and "
        "r, 1 <= l <= r "
        "<= n. For each of them print, on a line of its own, {what} the numbers from position l to r (both included, "
        "counted from 1).",
        "n, q = map(int, input().split())\nv = list(map(int, input().split()))\nfor _ in range(q):\n"
        "    l, r = map(int, input().split())\n    print({fun}(v[l - 1:r]))\n",
        "queries",
    ),
    (
        "The input is a text of several lines. Words are separated by white space. Print the {k} most frequent "
        "words (all, if "
        "there are fewer different ones), each on a line with its number of occurrences after a space: the "
        "most frequent first, "
        "equally frequent ones in {by} order.",
        "import sys\nt = {{}}\nfor line in sys.stdin:\n    for w in line.split():\n        t[w] = t.get(w, 0) + 1\n"
        "for w in sorted({sorted}, key=lambda w: -t[w])[:{k}]:\n    print(w, t[w])\n",
        "words",
    ),
    (
        "The first line holds r and c; each of the next r lines holds c whole numbers. For each {axis}, in "
        "order, print on a "
        "line of its own {what} its numbers, except for {axis} {k}, counted from 1, for which you print 'skipped'.",
        "r, c = map(int, input().split())\nm = [list(map(int, input().split())) for _ in range(r)]\n"
        "for i, line in enumerate({lines}, 1):\n    print('skipped' if i == {k} else {fun}(line))\n",
        "matrix",
    ),
)
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,3})?")


def ask_stdin_program(rng: random.Random, *, kinds: tuple[int, ...], size: int, tests: int = 6) -> Question:
    """A program from standard input to standard output."""
    words, code, shape = STDIN_TASKS[rng.choice(kinds)]
    fill: dict[str, Any] = {}
    fill["which"], fill["code"] = rng.choice([("largest", "max(d)"), ("mean", "sum(d) / n"), ("smallest", "min(d)")])
    fill["order"], fill["flip"] = rng.choice([("in descending order", "v"), ("in ascending order", "v[::-1]")])
    fill["by"], fill["sorted"] = rng.choice(
        [("alphabetical", "sorted(t)"), ("reverse alphabetical", "sorted(t)[::-1]")]
    )
    fill["low"] = rng.choice([-(10**9), *range(5, 30)])
    fill["minimum"] = "" if fill["low"] < 0 else f" if that is at least {fill['low']}"
    fill["how"], fill["skip"] = rng.choice(
        [("if they share a side", "dy and dx"), ("if they share a side or a corner", "False")]
    )
    fill["op"], fill["what"], fill["fun"] = rng.choice(
        [("sum", "the sum of", "sum"), ("low", "the smallest of", "min"), ("count", "how many there are of", "len")]
    )
    fill["axis"], fill["lines"] = rng.choice([("row", "m"), ("column", "zip(*m)")])
    fill["k"] = rng.randint(2, 4)
    source = code.format(**fill)
    inputs = [_stdin(rng, shape, size if i else 4, fill["op"]) for i in range(tests)]
    outputs = [_own_output(source, text) for text in inputs]
    story = rng.choice(["Write a Python program", "Write a complete Python program", "Write a Python script"])
    text = (
        f"{story} that reads standard input and writes standard output.\n\n{words.format(**fill)}\n\nExample "
        f"input:\n{inputs[0]}"
        f"Example output:\n{outputs[0]}\nOutput is compared token by token in each line; white space at ends "
        "of lines does not count, and "
        f"real numbers may be off by 1e-6 (absolute or relative).\n\n{PYTHON_ANSWER}"
    )
    return Question(text, fenced(source), {"inputs": inputs, "outputs": outputs})


def _stdin(rng: random.Random, shape: str, size: int, op: str) -> str:
    n = rng.randint(2, size)
    line = " ".join(str(rng.randint(-50, 99)) for _ in range(n))
    if shape == "list":
        return f"{n}\n{line}\n"
    if shape == "list_k":
        return f"{n} {rng.randint(1, n)}\n{line}\n"
    if shape == "names":
        return f"{n}\n" + "".join(f"{rng.choice('ana bo cy dee eli'.split())} {rng.randint(1, 20)}\n" for _ in range(n))
    if shape == "grid":
        width = rng.randint(2, size)
        return f"{n} {width}\n" + "".join("".join(rng.choice("#..#.") for _ in range(width)) + "\n" for _ in range(n))
    if shape == "queries":
        pairs = [sorted((rng.randint(1, n), rng.randint(1, n))) for _ in range(rng.randint(1, size))]
        return f"{n} {len(pairs)}\n{line}\n" + "".join(f"{low} {high}\n" for low, high in pairs)
    if shape == "words":
        return "".join(" ".join(rng.choices(WORDS[:8], k=rng.randint(1, 6))) + "\n" for _ in range(n))
    if shape == "matrix":
        width = rng.randint(2, size)
        rows = [" ".join(str(rng.randint(-9, 30)) for _ in range(width)) for _ in range(n)]
        return f"{n} {width}\n" + "".join(f"{row}\n" for row in rows)
    return "".join(rng.choice([f"push {rng.randint(-9, 30)}", "pop", op]) + "\n" for _ in range(2 * n))


def _own_output(source: str, text: str) -> str:
    """What one of our own programs prints: its `input`, `print` and `sys.stdin` are ours."""
    lines = iter(text.splitlines())
    out: list[str] = []
    space: dict[str, Any] = {
        "input": lambda: next(lines),
        "print": lambda *values: out.append(" ".join(map(str, values))),
        "stdin_lines": lines,
    }
    own = source.replace("import sys\n", "").replace("sys.stdin", "stdin_lines")
    exec(compile(own, "<own>", "exec"), space)
    return "".join(f"{line}\n" for line in out)


# The model's program runs in a process of its own for each input; what it expects is not in the sandbox at all.
STDIN_HARNESS = """
import json, os, subprocess, sys
job = json.load(open("job.json"))
for text in job["inputs"]:
    done = subprocess.run([sys.executable, "-I", "-S", "solution.py"], input=text.encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    print(json.dumps([done.returncode, done.stdout.decode("utf-8", "replace")]), flush=True)
"""


def judge_stdin(answer: str, task: Task) -> float:
    """1 where the program ends well on every input and its output agrees with ours."""
    inputs, outputs = task.metadata["inputs"], task.metadata["outputs"]
    files: dict[str, str | bytes] = {
        "harness.py": STDIN_HARNESS,
        "solution.py": source_of(answer).encode("utf-8", "replace"),
        "job.json": json.dumps({"inputs": list(inputs)}),
    }
    result = sandbox.run([PYTHON, "-I", "-S", "harness.py"], files=files, limits=PROGRAMS.limits)
    if result.exit_code == 127 and not result.stdout:
        raise SandboxDown("Python does not start in the sandbox")
    found = [_ended(line) for line in result.stdout.split(b"\n")[:-1]]
    if len(found) != len(outputs):
        return 0.0
    return float(
        all(code == 0 and same_output(text, right) for (code, text), right in zip(found, outputs, strict=True))
    )


def _ended(line: bytes) -> tuple[int, str]:
    try:
        code, text = json.loads(line)
    except (ValueError, TypeError, RecursionError):
        return 1, ""
    return (code, text) if isinstance(text, str) and type(code) is int else (1, "")


def same_output(found: str, right: str) -> bool:
    """Line by line and token by token; numbers within 1e-6, absolute or relative; white space at ends is ignored.

    Example: ``same_output("1.0000001  a \\n\\n", "1 a\\n")``
    """
    ours, theirs = ([line.split() for line in text.rstrip().split("\n")] for text in (right, found))
    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(map(_same_token, b, a)) for a, b in zip(ours, theirs, strict=True)
    )


def _same_token(found: str, right: str) -> bool:
    if found == right:
        return True
    if not (_NUMBER.fullmatch(found) and _NUMBER.fullmatch(right)):
        return False
    if "." not in right and "e" not in right.casefold():
        # Where ours is a whole number, a real one counts only as far as it is one up to rounding.
        return abs(Fraction(found) - Fraction(right)) <= Fraction(1, 10**6)
    return abs(Fraction(found) - Fraction(right)) <= Fraction(1, 10**6) * max(Fraction(1), abs(Fraction(right)))
