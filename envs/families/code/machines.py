"""Tracing programs of two small machines: one with a stack, one with registers and jumps.

In: a random stream and the settings of a level.  Out: a `Question` with one exact answer.  Called by
`envs.families.code`.  The machines' rules are part of each question; their interpreters are here.
"""

from __future__ import annotations

import random

from envs.skills import Question

STACK_RULES = """PUSH n: push n. POP: remove the top. DUP: push a copy of the top. SWAP: exchange the two topmost.
OVER: push a copy of the second from the top. ROT: move the third from the top to the top.
ADD, SUB, MUL: pop b (the top), then a, and push a+b, a-b, a*b. MOD: the same for a mod b (0 to b-1).
SKIP n: pop a value; if it is zero or negative, the next n instructions are skipped. PRINT: pop the top and print it."""


def run_stack(program: list[str]) -> tuple[list[int], list[int]]:
    """What is printed and what is left, bottom first; IndexError where the stack is too small."""
    stack: list[int] = []
    out: list[int] = []
    at = 0
    while at < len(program):
        word, _, number = program[at].partition(" ")
        at += 1
        if word == "PUSH":
            stack.append(int(number))
        elif word == "DUP":
            stack.append(stack[-1])
        elif word == "OVER":
            stack.append(stack[-2])
        elif word == "SWAP":
            stack[-1], stack[-2] = stack[-2], stack[-1]
        elif word == "ROT":
            stack.append(stack.pop(-3))
        elif word == "POP":
            stack.pop()
        elif word == "PRINT":
            out.append(stack.pop())
        elif word == "SKIP":
            at += int(number) if stack.pop() <= 0 else 0
        else:
            b, a = stack.pop(), stack.pop()
            stack.append({"ADD": a + b, "SUB": a - b, "MUL": a * b}[word] if word != "MOD" else a % b)
    return out, stack


def ask_stack_machine(rng: random.Random, *, length: int) -> Question:
    """The prints and the final stack of a stack machine."""
    while True:
        program = [f"PUSH {rng.randint(1, 9)}" for _ in range(4)]
        for _ in range(length):
            program.append(
                rng.choice(
                    ["DUP", "SWAP", "OVER", "ROT", "ADD", "SUB", "MUL", "PRINT", f"SKIP {rng.randint(1, 3)}", "POP"]
                    + [f"PUSH {rng.randint(-9, 12)}"] * 3
                )
            )
            if rng.random() < 0.15:
                program += [f"PUSH {rng.randint(3, 11)}", "MOD"]
        try:
            out, stack = run_stack(program)
        except (IndexError, ZeroDivisionError):
            continue
        if out and len(stack) >= 2 and max(map(abs, out + stack)) < 10**5:
            break
    text = (
        f"A stack machine knows these instructions:\n{STACK_RULES}\n\nProgram:\n" + "\n".join(program) + "\n\n"
        "Give two lines: the printed numbers in order, separated by spaces; then the stack at the end from "
        "bottom to top, "
        "separated by spaces."
    )
    return Question(text, " ".join(map(str, out)) + "\n" + " ".join(map(str, stack)))


def run_registers(program: list[str], limit: int = 400) -> tuple[dict[str, int], int] | None:
    """Registers and the number of executed instructions after HALT; None where it takes more than `limit`."""
    registers, at, steps = dict.fromkeys("ABCD", 0), 0, 0
    while steps < limit and at < len(program):
        word, *rest = program[at].replace(",", "").split()
        at, steps = at + 1, steps + 1
        if word == "HALT":
            return registers, steps
        value = registers.get(rest[-1]) if rest[-1] in registers else int(rest[-1])
        assert value is not None
        if word == "MOV":
            registers[rest[0]] = value
        elif word == "ADD":
            registers[rest[0]] += value
        elif word == "SUB":
            registers[rest[0]] -= value
        elif word == "XOR":
            registers[rest[0]] ^= value
        elif word == "JMP":
            at = value
        elif word == "JPOS":
            at = value if registers[rest[0]] > 0 else at
        elif word == "JODD":
            at = value if registers[rest[0]] % 2 else at
    return None


REGISTER_RULES = """Registers A, B, C, D hold whole numbers, 0 at the start. x is a register, y a register or a number.
MOV x, y: x becomes y. ADD x, y: x becomes x + y. SUB x, y: x becomes x - y. XOR x, y: x becomes x ^ y as in Python.
JMP n: go on at line n. JPOS x, n: go on at line n if x > 0. JODD x, n: go on at line n if x is odd. HALT: stop."""


def ask_register_machine(rng: random.Random, *, length: int, most: int) -> Question:
    """Registers and the number of steps of an assembly program with loops."""
    while True:
        program = [f"MOV {register}, {rng.randint(1, 15)}" for register in "ABCD"]
        for _ in range(length):
            x, y = rng.choice("ABCD"), rng.choice([*"ABCD", str(rng.randint(1, 7))])
            word = rng.choice(["ADD", "SUB", "MOV", "XOR", "ADD", "SUB"])
            if word == "XOR":
                y = str(rng.randint(1, 7))
            program.append(f"{word} {x}, {y}")
            if rng.random() < 0.3:
                program.append(f"{rng.choice(['JPOS', 'JODD'])} {x}, {rng.randint(4, len(program) + 2)}")
        program += [f"SUB A, {rng.randint(2, 5)}", "JPOS A, 4", "HALT", "HALT"]
        done = run_registers(program)
        if done and 12 <= done[1] <= most and all(abs(value) < 10**4 for value in done[0].values()):
            break
    registers, steps = done
    lines = "\n".join(f"{i}: {line}" for i, line in enumerate(program))
    text = (
        f"{REGISTER_RULES}\n\nThe program starts at line 0:\n{lines}\n\nGive five numbers separated by spaces: "
        "the final values of "
        "A, B, C and D, and the number of executed instructions (HALT included)."
    )
    return Question(text, " ".join(map(str, [*registers.values(), steps])))
