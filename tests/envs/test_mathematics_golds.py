"""Mathematics: golds found by another way, and what holds for all of the family's tasks."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

from envs.domain import rng_for
from envs.families.mathematics import SKILLS, domains, trees, values
from envs.families.mathematics.algebra import ask_absolute, ask_inequality, ask_quadratic
from envs.families.mathematics.counting import ask_committees, ask_words
from envs.families.mathematics.intervals import Interval, intervals
from envs.families.mathematics.matrices import ask_characteristic, ask_eigenvalues, ask_inverse
from envs.families.mathematics.texts import matrix_product


def _questions(ask: Any, count: int, **settings: Any) -> list[Any]:
    return [ask(rng_for("golds", index), **settings) for index in range(count)]


def test_inequalities_hold_inside_and_only_there() -> None:
    for question in _questions(ask_inequality, 60, roots=4, most=6, fractions=True):
        condition = question.text.split(" real x is ")[1].split("?")[0].replace("^", "**")
        gold = intervals(question.answer)
        assert gold is not None
        for step in range(-28, 29):
            x = Fraction(step, 4)
            try:
                holds = eval(condition.replace("x", f"Fraction('{x}')"), {"Fraction": Fraction})  # text of ours
            except ZeroDivisionError:
                holds = False
            inside = any(_is_in(x, piece) for piece in gold)
            assert holds == inside, (question.text, x)


def _is_in(x: Fraction, piece: Interval) -> bool:
    low, high, has_low, has_high = piece
    above = low is None or low < x or (low == x and has_low)
    return above and (high is None or x < high or (high == x and has_high))


def test_roots_solve_their_equations() -> None:
    for question in _questions(ask_quadratic, 40, most=9, surds=True):
        poly = values.polynomial(question.text.split("of ")[1].split(" = 0")[0])
        assert poly is not None and len(poly) == 3
        for part in values.parts(question.answer) or []:
            root = _float(values.sum_of(part))
            assert abs(sum(float(c) * root**k for k, c in enumerate(poly))) < 1e-6
    for question in _questions(ask_absolute, 40, terms=3, most=9):
        left, right = question.text.split("with ")[1].split(". Answer")[0].split(" = ")
        for x in values.numbers(question.answer) or []:
            tree = trees.read(left)
            assert tree is not None and _value(tree, x) == int(right)


def _float(found: values.Sum | None) -> float:
    assert found is not None
    return sum(float(value) * math.sqrt(radicand) for (_, radicand), value in found.items())


def _value(tree: Any, x: Fraction) -> Fraction:
    if not isinstance(tree, tuple):
        return x if tree == "x" else Fraction(tree)
    if len(tree) == 2:
        return abs(_value(tree[1], x))
    a, b = _value(tree[1], x), _value(tree[2], x)
    return a + b if tree[0] == "+" else a - b if tree[0] == "-" else a * b


def test_matrices_are_what_they_are_said_to_be() -> None:
    for question in _questions(ask_inverse, 10, size=3, most=4):
        matrix = values.rows(question.text.split("matrix ")[1].split("? ")[0])
        inverse = values.rows(question.answer)
        assert matrix is not None and inverse is not None
        assert matrix_product(matrix, inverse) == [[int(i == j) for j in range(3)] for i in range(3)]
    for question in _questions(ask_eigenvalues, 20, size=3, most=5, surds=True):
        matrix = values.rows(question.text.split("of ")[1].split(" exactly")[0])
        assert matrix is not None
        for part in values.parts(question.answer) or []:
            x = _float(values.sum_of(part))
            rows = [
                [float(value) - (x if i == j else 0) for j, value in enumerate(row)] for i, row in enumerate(matrix)
            ]
            (a, b, c), (d, e, f), (g, h, k) = rows
            assert abs(a * (e * k - f * h) - b * (d * k - f * g) + c * (d * h - e * g)) < 1e-6
    for question in _questions(ask_characteristic, 10, size=2, most=6):
        matrix = values.rows(question.text.split("A = ")[1].split(". Answer")[0])
        assert matrix is not None
        (p, q), (r, s) = matrix
        assert values.polynomial(question.answer) == [p * s - q * r, -(p + s), 1]


def test_counts_by_listing_all() -> None:
    for question in _questions(ask_words, 30, letters=5, kinds=3):
        letters = question.text.split("letters of ")[1].split(" ")[0]
        found = {"".join(word) for word in itertools.permutations(letters)}
        rule = question.text.split("stands there)")[1]
        if "next to each other" in rule:
            letter = rule.split("letters ")[1][0]
            found = {word for word in found if letter * letters.count(letter) in word}
        elif "no two" in rule:
            letter = rule.split("letters ")[1][0]
            found = {word for word in found if letter * 2 not in word}
        elif "begin" in rule:
            first, last = rule.split("begin with ")[1][0], rule.split("end with ")[1][0]
            found = {word for word in found if word[0] == first and word[-1] != last}
        assert question.answer == str(len(found)), question.text
    for question in _questions(ask_committees, 30, most=5, size=4):
        numbers = [int(word) for word in question.text.replace(".", "").split() if word.isdigit()]
        teachers, pupils, chosen, least = numbers
        people = [("t", i) for i in range(teachers)] + [("p", i) for i in range(pupils)]
        count = 0
        for group in itertools.combinations(people, chosen):
            kinds = [kind for kind, _ in group]
            named = (("t", 0) in group) + (("p", 0) in group)
            wanted = 2 if "both" in question.text else 0 if "neither" in question.text else 1
            count += kinds.count("t") >= least and "p" in kinds and named == wanted
        assert question.answer == str(count), question.text


def test_easy_tasks_are_short_and_plain() -> None:
    for domain in domains():
        if domain.name.endswith("-easy"):
            for index in range(12):
                task = domain.task(index)
                prompt = task.prompt[-1].text
                assert len(prompt) <= 900 and len(task.reference) <= 60, domain.name
                assert all(" " <= sign <= "~" or sign == "\n" for sign in prompt + task.reference), domain.name


def test_skills_are_all_different() -> None:
    found = domains()
    codes = {(domain.generator_id, domain.verifier_id) for domain in found}
    assert len(found) == 3 * len(codes) and len(codes) == len(SKILLS) >= 90
