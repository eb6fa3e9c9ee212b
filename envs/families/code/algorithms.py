"""Functions from a description: simulations, and best choices on a list.

In: a random stream and the settings of a level.  Out: a `Question` answered by Python source.  Called by
`envs.families.code`.
"""

from __future__ import annotations

import random

from envs.families.code.common import (
    NAMES,
    function_question,
    numbers,
)
from envs.skills import Question

# What a command of the robot does: the description and the lines of the branch.
COMMANDS = {
    "F": ("one step in the direction it faces", "nx, ny = x + dx, y + dy"),
    "B": ("one step backwards, without turning", "nx, ny = x - dx, y - dy"),
    "J": ("two steps in the direction it faces, as one move", "nx, ny = x + 2 * dx, y + 2 * dy"),
    "L": ("turn left by 90 degrees", "dx, dy = -dy, dx"),
    "R": ("turn right by 90 degrees", "dx, dy = dy, -dx"),
    "U": ("turn around by 180 degrees", "dx, dy = -dx, -dy"),
}
EDGES = {
    "stop": (
        "a move that would leave the grid is not made",
        "if 0 <= nx < {w} and 0 <= ny < {h}:\n            x, y = nx, ny",
    ),
    "wrap": ("it comes back in on the opposite side", "x, y = nx % {w}, ny % {h}"),
    "end": (
        "a move that would leave the grid ends the run at once",
        "if not (0 <= nx < {w} and 0 <= ny < {h}):\n            break\n        x, y = nx, ny",
    ),
}
RETURNS = {
    "place": ("[x, y]", "[x, y]"),
    "visited": ("the number of different cells it has stood on, the start included", "len(seen)"),
    "distance": ("the Manhattan distance from the start to the final cell", "abs(x - {sx}) + abs(y - {sy})"),
    "twice": ("the number of moves that brought it to a cell it had stood on before", "again"),
}


def ask_robot(rng: random.Random, *, commands: int, tests: int = 12) -> Question:
    """A simulation: a robot on a grid, with rules of its own."""
    name = rng.choice(NAMES)
    width, height = rng.randint(3, 9), rng.randint(3, 9)
    fill = {"w": width, "h": height, "sx": rng.randrange(width), "sy": rng.randrange(height)}
    letters = ["F", rng.choice("LR"), *rng.sample("BJU", max(0, commands - 2))]
    edge, result = rng.choice(sorted(EDGES)), rng.choice(sorted(RETURNS))
    rules = [f"{letter}: {COMMANDS[letter][0]}" for letter in letters]
    facing, step = rng.choice([("up (y grows)", "0, 1"), ("right (x grows)", "1, 0"), ("left (x shrinks)", "-1, 0")])
    branches: list[str] = []
    for letter in letters:
        branches += [f"        {'el' if branches else ''}if c == {letter!r}:", f"            {COMMANDS[letter][1]}"]
    move = EDGES[edge][1].format(**fill)
    source = "\n".join(
        [
            f"def {name}(commands):",
            f"    x, y, dx, dy = {fill['sx']}, {fill['sy']}, {step}",
            "    seen, again = {(x, y)}, 0",
            "    for c in commands:",
            "        nx, ny = x, y",
            *branches,
            "        if (nx, ny) == (x, y):",
            "            continue",
            f"        before = (x, y)\n        {move}",
            "        if (x, y) != before:",
            "            again += (x, y) in seen",
            "            seen.add((x, y))",
            f"    return {RETURNS[result][1].format(**fill)}",
        ]
    )

    def line(most: int) -> str:
        return "".join(rng.choice([*letters, "F"]) for _ in range(rng.randint(1, most)))

    return function_question(
        task=(
            f"A robot stands on a grid of cells (x, y), 0 <= x < {width}, 0 <= y < {height}; y grows upwards, "
            "x to the right. It "
            f"starts at ({fill['sx']}, {fill['sy']}) facing {facing}. `commands` is a text of these letters:\n"
            + "\n".join(rules)
            + f"\nAt the edge: {EDGES[edge][0]}. Return {RETURNS[result][0]}"
            + (" of its final cell." if result == "place" else ".")
        ),
        name=name,
        signature=f"{name}(commands)",
        source=source,
        arguments=[[line(8)], [line(12)], [""]] + [[line(40)] for _ in range(tests)],
    )


CHOICES = (
    (
        "Return the largest sum of a subsequence of `values` in which chosen positions differ by at least {k} "
        "(0 for choosing "
        "nothing).",
        "    best = []\n    for i, v in enumerate(values):\n        before = max(best[:max(0, i - {k} + 1)], "
        "default=0)\n"
        "        best.append(max(before, 0) + v)\n    return max(best, default=0) if max(best, default=0) > 0 else 0\n",
    ),
    (
        "Return the length of the longest subsequence of `values` in which each element exceeds the one before "
        "it by at least "
        "{k}.",
        "    best = []\n    for i, v in enumerate(values):\n"
        "        best.append(1 + max((best[j] for j in range(i) if v - values[j] >= {k}), default=0))\n"
        "    return max(best, default=0)\n",
    ),
    (
        "Return the number of ways to choose a set of positions of `values` (perhaps none) whose values add up "
        "to {t}; the "
        "empty sum is 0.",
        "    ways = {{0: 1}}\n    for v in values:\n        new = dict(ways)\n        for total, count in "
        "ways.items():\n"
        "            new[total + v] = new.get(total + v, 0) + count\n        ways = new\n    return ways.get({t}, 0)\n",
    ),
    (
        "A walker starts before the list and reaches each next element by a step of 1 to {k} positions (the "
        "first element lies "
        "one position from the start). It must end on the last element. Return the smallest possible sum of "
        "the elements that it "
        "stands on, or 0 for an empty list.",
        "    cost = [0]\n    for v in values:\n        cost.append(v + min(cost[-{k}:]))\n    return cost[-1]\n",
    ),
    (
        "Return the largest sum of a contiguous part of `values` with at least {k} elements, or None if the "
        "list is shorter.",
        "    sums = [sum(values[i:j]) for i in range(len(values)) for j in range(i + {k}, len(values) + 1)]\n"
        "    return max(sums, default=None)\n",
    ),
    (
        "Return the smallest number of contiguous parts into which `values` can be cut so that each part's largest and "
        "smallest element differ by at most {t}; 0 for an empty list.",
        "    parts, low, high = 0, None, None\n    for v in values:\n"
        "        if low is not None and max(high, v) - min(low, v) <= {t}:\n            low, high = min(low, "
        "v), max(high, v)\n"
        "        else:\n            parts, low, high = parts + 1, v, v\n    return parts\n",
    ),
    (
        "Return the length of the longest contiguous part of `values` with at most {k} different values.",
        "    best = 0\n    for i in range(len(values)):\n        for j in range(i, len(values)):\n"
        "            if len(set(values[i:j + 1])) <= {k}:\n                best = max(best, j - i + 1)\n    "
        "return best\n",
    ),
    (
        "Remove elements in rounds: in each round, remove at once every element that is strictly smaller than "
        "the one directly "
        "before it or directly after it in the current list and is not at either end. Return the list when a "
        "round removes "
        "nothing, or after {k} rounds.",
        "    for _ in range({k}):\n        keep = [v for i, v in enumerate(values) if i in (0, len(values) - 1)\n"
        "                or not (v < values[i - 1] or v < values[i + 1])]\n        if keep == values:\n        "
        "    break\n"
        "        values = keep\n    return values\n",
    ),
)


def ask_best_choice(rng: random.Random, *, kinds: tuple[int, ...], most: int, tests: int = 14) -> Question:
    """Optimal subsequences, cuts and counts on one list, with bounds of their own."""
    name = rng.choice(NAMES)
    words, body = CHOICES[rng.choice(kinds)]
    fill = {"k": rng.randint(2, 5), "t": rng.randint(5, 25)}
    low = rng.choice([-9, 0, 1])
    return function_question(
        task=f"`values` is a list of whole numbers. {words.format(**fill)}",
        name=name,
        signature=f"{name}(values)",
        source=f"def {name}(values):\n{body.format(**fill)}",
        arguments=[[numbers(rng, low, 15, 7, 5)], [numbers(rng, low, 15, 9, 6)], [[]], [[rng.randint(1, 9)]]]
        + [[numbers(rng, rng.choice([-9, 0, 1]), rng.choice([3, 15]), most)] for _ in range(tests)],
    )
