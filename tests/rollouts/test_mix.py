"""What the user wrote -> weights: every rule by value, every mistake by its message."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pytest

from rollouts.mix import Rule, parse_mix_arguments, render, resolve, rules_of
from rollouts.mixture import Mixture

FAMILIES = {
    name: name.split("/")[0] for name in ("math/add", "math/mul", "math/sort", "code/sort", "code/x", "sql/join")
}


def weights(*arguments: str, base: Sequence[Rule] = ()) -> dict[str, str]:
    rules, rest = parse_mix_arguments(arguments)
    assert rest == []
    return {name: str(weight) for name, weight in resolve(FAMILIES, [*base, *rules]).weights.items()}


ALL = rules_of({"*": 1}, {}, "conf/mix/balanced.yaml")


def test_default_is_balanced_by_family_and_says_so() -> None:
    """F24: not by the number of domains or tasks."""
    mix = resolve(FAMILIES)
    by_family: dict[str, Fraction] = {}
    for row in mix.rows:
        by_family[row.family] = by_family.get(row.family, Fraction(0)) + row.weight
    assert by_family == dict.fromkeys(("math", "code", "sql"), Fraction(1, 3))
    assert "default: balanced by family" in render(mix)
    two = resolve({"small/a": "small", **{f"large/{i}": "large" for i in range(100)}})
    assert two.weights["small/a"] == Fraction(1, 2)


def test_family_and_factor_rules() -> None:
    assert weights("mix.families.math=1") == dict.fromkeys(("math/add", "math/mul", "math/sort"), "1/3")
    assert weights("mix.families.math=3", "mix.families.sql=1", "mix.domains.math/add=2") == {
        "math/add": "3/8",
        "math/mul": "3/16",
        "math/sort": "3/16",
        "sql/join": "1/4",
    }
    assert weights("mix.families.sql=2", "mix.domains.*/sort=3") == {
        "sql/join": "1/4",
        "math/sort": "3/8",
        "code/sort": "3/8",
    }
    assert weights("mix.domains.math/add=0.5", "mix.domains.sql/join=1.5") == {"math/add": "1/4", "sql/join": "3/4"}
    assert weights("mix.domains.math/*=2") == dict.fromkeys(("math/add", "math/mul", "math/sort"), "1/3")


def test_the_later_rule_wins_and_removal_says_who() -> None:
    assert weights("mix.families.math=2", base=ALL)["sql/join"] == "1/4"
    assert weights("mix.domains.math/*=9", "mix.domains.math/add=1", base=ALL)["math/add"] == "1/57"
    assert weights("~mix.domains.code/x") == weights("~mix.domains.code/x", base=ALL)
    assert weights("~mix.domains.code/x")["code/sort"] == "1/3"
    assert weights("~mix.domains.code/x", "mix.domains.code/x=1", base=ALL) == weights(base=ALL)
    assert set(weights("~mix.families.math")) == {"code/sort", "code/x", "sql/join"}
    assert weights("~mix.families.math", "mix.domains.math/add=1", base=ALL)["math/add"] == "1/3"
    assert "math/add" not in weights("mix.domains.math/add=1", "~mix.families.math", base=ALL)
    rules, _ = parse_mix_arguments(["~mix.domains.code/x"])
    rows = {row.domain: row for row in resolve(FAMILIES, rules).rows}
    assert rows["code/x"].weight == 0
    assert rows["code/x"].origin == "removed by command line: ~mix.domains.code/x"


def test_table_holds_quota_and_the_first_step_of_the_mixture() -> None:
    rules = rules_of({"math": 2, "code": 1, "sql": 1}, {"code/x": 3}, "conf/mix/mine.yaml")
    mix = resolve(FAMILIES, rules, groups_per_step=10, seed=5)
    assert sum(row.quota for row in mix.rows) == 10 == sum(row.first_step for row in mix.rows)
    mixture = Mixture(mix.weights, dict.fromkeys(FAMILIES, ("low",)), seed=5)
    drawn = [mixture.next_ticket().domain for _ in range(10)]
    assert {row.domain: row.first_step for row in mix.rows} == {row.domain: drawn.count(row.domain) for row in mix.rows}
    lines = render(mix).splitlines()
    assert len(lines) == 1 + 6 + 1 and "conf/mix/mine.yaml" in lines[1] and "6 domains, 3 families" in lines[-1]


def test_unnormalised_weights_are_the_same_mix() -> None:
    one = resolve(FAMILIES, rules_of({"math": 0.55, "code": 0.30, "sql": 0.15}, {}, "x"))
    two = resolve(FAMILIES, rules_of({"math": 11, "code": 6, "sql": 3}, {}, "x"))
    assert one == two


def test_arguments_keep_their_order_and_leave_the_rest() -> None:
    arguments = [
        "experiment=toy",
        "mix.families.math=2",
        "~domains.code",
        "+mix.domains.*/sort=3",
        "mix=balanced",
        "~mix.domains.code/x",
        "mix.update_every=4",
    ]
    rules, rest = parse_mix_arguments(arguments)
    assert rest == ["experiment=toy", "~domains.code", "mix=balanced", "mix.update_every=4"]
    assert [(rule.kind, rule.pattern, rule.weight) for rule in rules] == [
        ("family", "math", 2),
        ("domain", "*/sort", 3),
        ("domain", "code/x", 0),
    ]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("mix.families.maths=2", r"mix\.families\.maths=2 .*no family 'maths'; did you mean 'math'"),
        ("mix.domains.math/ad=2", r"mix\.domains\.math/ad=2 .*no domain 'math/ad'; did you mean 'math/add'"),
        ("mix.domains.*/sorted=2", r"pattern matches no domain"),
        ("~mix.domains.zzz/q", r"no domain 'zzz/q'; families are code, math, sql"),
        ("mix.families.math=-1", r"mix\.families\.math=-1 .*0 or above"),
        ("mix.families.math=nan", r"mix\.families\.math=nan .*finite"),
        ("mix.families.math=inf", r"finite"),
        ("mix.families.math=two", r"'two' is not a number"),
        ("mix.families.math", r"weight is missing"),
        ("~mix.families.*", r"mix is empty"),
    ],
)
def test_mistakes_name_key_value_and_the_right_name(argument: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        rules, _ = parse_mix_arguments([argument])
        resolve(FAMILIES, rules)
    assert str(error.value).count("\n") <= 1


def test_rule_key() -> None:
    assert Rule("domain", "*/sort", 3, "x").key == "mix.domains.*/sort"
