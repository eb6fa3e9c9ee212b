"""Questions of linear algebra and of geometry by coordinates.

In: a random stream and the settings of a level.  Out: a `Question`.  Listed in the family.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction

from envs.families.mathematics import judges
from envs.families.mathematics.texts import (
    Number,
    a_set,
    a_tuple,
    determinant,
    eliminated,
    joined_terms,
    linear_text,
    matrix_product,
    matrix_text,
    nonzero,
    polynomial_text,
    skill,
    surd_text,
)
from envs.families.mathematics.values import integers
from envs.skills import Question
from envs.types import Task

EXACT = "Answer with a whole number or a fraction such as 7/3."
ROWS = "Answer with its rows, like [[1, 2], [0, -1/3]]."


def _matrix(rng: random.Random, rows: int, columns: int, most: int) -> list[list[int]]:
    return [[rng.randint(-most, most) for _ in range(columns)] for _ in range(rows)]


def ask_determinant(rng: random.Random, *, size: int, most: int) -> Question:
    """The determinant of a whole matrix."""
    matrix = _matrix(rng, size, size, most)
    return Question(f"What is the determinant of {matrix_text(matrix)}? {EXACT}", str(determinant(matrix)))


def ask_inverse(rng: random.Random, *, size: int, most: int) -> Question:
    """The inverse of a matrix."""
    while True:
        matrix = _matrix(rng, size, size, most)
        value = abs(determinant(matrix))
        if value and (value <= 12 or size == 2):
            break
    wide = [[*row, *(int(i == j) for j in range(size))] for i, row in enumerate(matrix)]
    inverse = [row[size:] for row in eliminated(wide)[0]]
    return Question(f"What is the inverse of the matrix {matrix_text(matrix)}? {ROWS}", matrix_text(inverse))


def ask_product(rng: random.Random, *, size: int, most: int, factors: int) -> Question:
    """A product of matrices, or a combination of a product and a sum."""
    sides = [rng.randint(1, size) for _ in range(factors + 1)]
    matrices = [_matrix(rng, a, b, most) for a, b in itertools.pairwise(sides)]
    product: Sequence[Sequence[Number]] = matrices[0]
    for matrix in matrices[1:]:
        product = matrix_product(product, matrix)
    extra, times = _matrix(rng, sides[0], sides[-1], most), nonzero(rng, -4, 4)
    value = [
        [a + times * b for a, b in zip(row, other, strict=True)] for row, other in zip(product, extra, strict=True)
    ]
    names = "ABCD"[:factors]
    listed = ", ".join(f"{name} = {matrix_text(matrix)}" for name, matrix in zip(names, matrices, strict=True))
    shown = joined_terms([(1, "*".join(names)), (times, "M")])
    return Question(f"Let {listed}, M = {matrix_text(extra)}. Compute {shown}. {ROWS}", matrix_text(value))


def _low_rank(rng: random.Random, rows: int, columns: int, rank: int, most: int) -> list[list[int]]:
    """A whole matrix of a given rank without zero rows."""
    while True:
        left, right = _matrix(rng, rows, rank, most), _matrix(rng, rank, columns, most)
        found = [[int(value) for value in row] for row in matrix_product(left, right)]
        if len(eliminated(found)[1]) == rank and all(any(row) for row in found):
            return found


def ask_dependent(rng: random.Random, *, rows: int, columns: int, most: int) -> Question:
    """Which columns depend on those to their left."""
    choices = [(0, *rest) for size in range(rows) for rest in itertools.combinations(range(1, columns), size)]
    pivots = rng.choice([choice for choice in choices if 1 < len(choice) < columns])
    while True:
        found: list[list[int]] = []
        for column in range(columns):
            basis = [found[pivot] for pivot in pivots if pivot < column]
            weights = [rng.randint(-2, 2) for _ in basis]
            combined = [sum(w * vector[i] for w, vector in zip(weights, basis, strict=True)) for i in range(rows)]
            found.append([rng.randint(-most, most) for _ in range(rows)] if column in pivots else combined)
        matrix = [list(row) for row in zip(*found, strict=True)]
        if eliminated(matrix)[1] == list(pivots):
            break
    depending = [column + 1 for column in range(columns) if column not in pivots]
    text = f"Which columns of {matrix_text(matrix)} (given by rows, columns numbered from 1) are linear combinations of"
    text += " the columns to the left of them (a zero column is one)?"
    return Question(f"{text} Answer with the set of their numbers, like {{3, 4}}.", a_set(depending))


def ask_null_vector(rng: random.Random, *, rows: int, most: int) -> Question:
    """Any whole vector that a matrix sends to zero."""
    matrix = _low_rank(rng, rows, rows + 1, rows, most)
    reduced, pivots, _ = eliminated(matrix)
    free = next(column for column in range(rows + 1) if column not in pivots)
    vector = [Fraction(0)] * (rows + 1)
    vector[free] = Fraction(1)
    for row, pivot in zip(reduced, pivots, strict=False):
        vector[pivot] = -row[free]
    times = math.lcm(*(value.denominator for value in vector))
    text = f"Give a vector of whole numbers, not all of them 0, that the matrix {matrix_text(matrix)} (given by rows)"
    gold = a_tuple([value * times for value in vector])
    return Question(
        f"{text} sends to the zero vector. Any such vector will do. Answer like (1, -2, 0).", gold, {"matrix": matrix}
    )


def judge_null_vector(answer: str, task: Task) -> float:
    found, matrix = integers(answer), task.metadata["matrix"]
    if found is None or len(found) != len(matrix[0]) or not any(found):
        return 0.0
    return float(all(sum(a * b for a, b in zip(row, found, strict=True)) == 0 for row in matrix))


def ask_eigenvalues(rng: random.Random, *, size: int, most: int, surds: bool) -> Question:
    """All eigenvalues of a small matrix, real and exact."""
    while True:
        block = _matrix(rng, 2, 2, most)
        (a, b), (c, d) = block
        inside = (a - d) ** 2 + 4 * b * c
        is_square = inside >= 0 and math.isqrt(inside) ** 2 == inside
        if inside > 0 and b and c and (is_square != surds):
            break
    found = [surd_text(Fraction(a + d, 2), Fraction(sign, 2), inside) for sign in (-1, 1)]
    matrix = [list(row) for row in block]
    while len(matrix) < size:  # a change of basis with determinant 1 hides the zeros
        value = next(v for v in iter(lambda: rng.randint(-most, most), None) if str(v) not in found)
        found.append(str(value))
        n = len(matrix)
        matrix = [[*row, 0] for row in matrix] + [[0] * n + [value]]
        for _ in range(2):
            i, j = rng.sample(range(n + 1), 2)
            times = rng.choice([-1, 1])
            matrix[i] = [x + times * y for x, y in zip(matrix[i], matrix[j], strict=True)]
            for row in matrix:
                row[j] -= times * row[i]
    text = f"Give all different eigenvalues of {matrix_text(matrix)} exactly."
    return Question(f"{text} Answer with a set, like {{-1, 2}} or {{1 - sqrt(5), 1 + sqrt(5)}}.", a_set(found))


def ask_matrix_power(rng: random.Random, *, exponent: int, modulus: int) -> Question:
    """A high power of a small matrix, modulo a number."""
    matrix, power, mod = _matrix(rng, 2, 2, 5), rng.randint(exponent // 2, exponent), rng.randint(7, modulus)
    result, square, left = [[1, 0], [0, 1]], matrix, power
    while left:
        if left % 2:
            result = [[int(value) % mod for value in row] for row in matrix_product(result, square)]
        square = [[int(value) % mod for value in row] for row in matrix_product(square, square)]
        left //= 2
    text = f"Compute {matrix_text(matrix)}^{power} modulo {mod}, with entries from 0 to {mod - 1}."
    return Question(f"{text} {ROWS}", matrix_text(result))


def ask_area(rng: random.Random, *, corners: int, most: int) -> Question:
    """The area of a polygon that is star-shaped around a point."""
    while True:
        points = {(rng.randint(-most, most), rng.randint(-most, most)) for _ in range(corners)}
        ordered = sorted(points, key=lambda p: math.atan2(p[1] + 0.37, p[0] + 0.41))
        angles = [math.atan2(y + 0.37, x + 0.41) for x, y in ordered]
        gaps = [b - a for a, b in zip(angles, [*angles[1:], angles[0] + 2 * math.pi], strict=True)]
        if len(points) == corners and min(gaps) > 0.05 and max(gaps) < 3.0:
            break
    start = rng.randrange(corners)
    ordered = ordered[start:] + ordered[:start]
    double = sum(a * d - b * c for (a, b), (c, d) in zip(ordered, [*ordered[1:], ordered[0]], strict=True))
    listed = ", ".join(map(a_tuple, ordered))
    return Question(
        f"What is the area of the polygon with corners {listed}, in this order? {EXACT}", str(Fraction(double, 2))
    )


def ask_distance(rng: random.Random, *, most: int, dimensions: int, line: bool) -> Question:
    """The distance of two points, or of a point from a line, with its root."""
    if line:
        a, b, c = nonzero(rng, -most, most), nonzero(rng, -most, most), rng.randint(-most, most)
        x, y = rng.randint(-most, most), rng.randint(-most, most)
        gold = surd_text(0, Fraction(abs(a * x + b * y - c), a * a + b * b), a * a + b * b)
        shown = f"the point {a_tuple((x, y))} and the line {linear_text([a, b], ['x', 'y'])} = {c}"
    else:
        first, second = ([rng.randint(-most, most) for _ in range(dimensions)] for _ in range(2))
        square = sum((p - q) ** 2 for p, q in zip(first, second, strict=True))
        gold = surd_text(0, 1, square)
        shown = f"the points {a_tuple(first)} and {a_tuple(second)}"
    text = f"What is the distance between {shown}? Answer exactly, with no square factor inside the root, like"
    return Question(f"{text} 2/5*sqrt(5).", gold)


def ask_intersection(rng: random.Random, *, most: int) -> Question:
    """Where two lines, each through two points, meet."""
    while True:
        points = [[rng.randint(-most, most) for _ in range(2)] for _ in range(4)]
        lines = []
        for (x, y), (u, v) in (points[:2], points[2:]):
            lines.append([v - y, x - u, x * (v - y) - y * (u - x)])
        if lines[0][0] * lines[1][1] != lines[0][1] * lines[1][0]:
            break
    reduced = eliminated(lines)[0]
    shown = [f"through {a_tuple(a)} and {a_tuple(b)}" for a, b in (points[:2], points[2:])]
    text = f"Where does the line {shown[0]} meet the line {shown[1]}?"
    return Question(f"{text} Answer with a point, like (1/2, -3).", a_tuple([reduced[0][2], reduced[1][2]]))


def ask_circle(rng: random.Random, *, most: int) -> Question:
    """Centre and squared radius of the circle through three points."""
    while True:
        points = [[rng.randint(-most, most) for _ in range(2)] for _ in range(3)]
        system = [[2 * x, 2 * y, 1, x * x + y * y] for x, y in points]
        reduced, pivots, _ = eliminated(system)
        if pivots == [0, 1, 2]:
            break
    x, y = reduced[0][3], reduced[1][3]
    square = (points[0][0] - x) ** 2 + (points[0][1] - y) ** 2
    listed = ", ".join(map(a_tuple, points))
    text = f"A circle goes through {listed}. Give its centre (x, y) and the square s of its radius."
    return Question(f"{text} Answer with (x, y, s), like (1/2, -3, 25/4).", a_tuple([x, y, square]))


def ask_vectors(rng: random.Random, *, most: int) -> Question:
    """Cross product, foot of a perpendicular, or mirror image, in space."""
    u, v, p = ([rng.randint(-most, most) for _ in range(3)] for _ in range(3))
    u[0] = u[0] or 1
    kind = rng.randrange(3)
    along = Fraction(sum(a * b for a, b in zip(p, u, strict=True)), sum(a * a for a in u))
    if kind == 0:
        text = f"What is the cross product of {a_tuple(u)} and {a_tuple(v)}?"
        value: list[Number] = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
    elif kind == 1:
        text = f"Which point of the line through (0, 0, 0) and {a_tuple(u)} is nearest to {a_tuple(p)}?"
        value = [along * a for a in u]
    else:
        text = f"What is the mirror image of {a_tuple(p)} in the plane through (0, 0, 0) perpendicular to {a_tuple(u)}?"
        value = [b - 2 * along * a for a, b in zip(u, p, strict=True)]
    return Question(f"{text} Answer with three coordinates, like (1, -2/3, 0).", a_tuple(value))


def ask_characteristic(rng: random.Random, *, size: int, most: int) -> Question:
    """The characteristic polynomial det(x*I - A)."""
    matrix = _matrix(rng, size, size, most)
    found: list[Number] = [1]
    power = [[Fraction(int(i == j)) for j in range(size)] for i in range(size)]
    for k in range(1, size + 1):  # Faddeev and LeVerrier
        product = matrix_product(matrix, power)
        value = -sum((product[i][i] for i in range(size)), Fraction(0)) / k
        found.insert(0, value)
        power = [[product[i][j] + (value if i == j else 0) for j in range(size)] for i in range(size)]
    text = f"Give the characteristic polynomial det(x*I - A) of A = {matrix_text(matrix)}."
    return Question(f"{text} Answer with a sum of terms, like x^2 - 3*x + 1.", polynomial_text(found))


SKILLS = [
    skill(
        "determinants",
        ask_determinant,
        judges.judge_number,
        {"size": 2, "most": 6},
        {"size": 3, "most": 7},
        {"size": 4, "most": 9},
    ),
    skill(
        "inverse_matrices",
        ask_inverse,
        judges.judge_matrix,
        {"size": 2, "most": 4},
        {"size": 3, "most": 4},
        {"size": 4, "most": 3},
    ),
    skill(
        "matrix_products",
        ask_product,
        judges.judge_matrix,
        {"size": 2, "most": 4, "factors": 2},
        {"size": 3, "most": 6, "factors": 2},
        {"size": 4, "most": 9, "factors": 3},
    ),
    skill(
        "dependent_columns",
        ask_dependent,
        judges.judge_number_set,
        {"rows": 2, "columns": 5, "most": 3},
        {"rows": 3, "columns": 5, "most": 4},
        {"rows": 4, "columns": 7, "most": 6},
    ),
    skill(
        "null_vectors",
        ask_null_vector,
        judge_null_vector,
        {"rows": 1, "most": 6},
        {"rows": 2, "most": 6},
        {"rows": 3, "most": 5},
    ),
    skill(
        "eigenvalues",
        ask_eigenvalues,
        judges.judge_surd_set,
        {"size": 2, "most": 4, "surds": False},
        {"size": 2, "most": 6, "surds": True},
        {"size": 3, "most": 5, "surds": True},
    ),
    skill(
        "characteristic_polynomials",
        ask_characteristic,
        judges.judge_polynomial,
        {"size": 2, "most": 6},
        {"size": 3, "most": 5},
        {"size": 4, "most": 5},
    ),
    skill(
        "matrix_powers",
        ask_matrix_power,
        judges.judge_matrix,
        {"exponent": 4, "modulus": 20},
        {"exponent": 12, "modulus": 40},
        {"exponent": 1000, "modulus": 200},
    ),
    skill(
        "polygon_areas",
        ask_area,
        judges.judge_number,
        {"corners": 3, "most": 6},
        {"corners": 5, "most": 12},
        {"corners": 8, "most": 40},
    ),
    skill(
        "distances",
        ask_distance,
        judges.judge_simple_surd,
        {"most": 6, "dimensions": 2, "line": False},
        {"most": 20, "dimensions": 3, "line": False},
        {"most": 20, "dimensions": 2, "line": True},
    ),
    skill("line_intersections", ask_intersection, judges.judge_numbers, {"most": 4}, {"most": 9}, {"most": 40}),
    skill("circles", ask_circle, judges.judge_numbers, {"most": 3}, {"most": 6}, {"most": 20}),
    skill("vectors", ask_vectors, judges.judge_numbers, {"most": 3}, {"most": 7}, {"most": 20}),
]
