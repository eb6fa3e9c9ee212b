"""The judges of `structured` by hand: what counts as right, near misses, and texts that are meant to do harm."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from envs.check import HOSTILE_ANSWERS
from envs.demonstrate import score_text
from envs.domain import Domain
from envs.families.structured import FAMILY, SKILLS, merges, patches, paths, schemas, tables, texts
from envs.families.structured.reading import (
    Refused,
    read_csv,
    read_ini,
    read_json,
    read_table,
    read_toml,
    read_xml,
    read_yaml,
    same,
)
from envs.types import Task

DOMAINS: dict[str, Domain] = {domain.name: domain for domain in FAMILY.domains()}
BY_NAME = {skill.name: skill for skill in SKILLS}

LAUGHS = '<!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;&b;">]><a>&c;</a>'
ALIASES = "a: &a [1, 2]\nb: &b [*a, *a]\nc: [*b, *b]"
HOSTILE = [
    *HOSTILE_ANSWERS.values(),
    "[" * 10_000,
    "[" * 4_000 + "]" * 4_000,
    '{"a":' * 2_000,
    "<a>" * 3_000,
    "<a>" * 1_500 + "</a>" * 1_500,
    LAUGHS,
    ALIASES,
    "- " * 5_000 + "a",
    "? " * 5_000,
    "a.b" + ".a" * 5_000 + " = 1",
    "[" + "a." * 5_000 + "a]",
    "9" * 11_000,
    "1:" * 5_000 + "1",
    "[1e999]",
    "NaN",
    "-Infinity",
    '{"a": 1, "a": 1}',
    "\ud800 \udfff",
    '["\\ud800"]',
    "a\0b",
    '"' * 9_999,
    "|" * 10_000,
    "|" * 5_000 + "\n" + "|" * 5_000,
    "@@ -1,99999 +1,99999 @@",
    "@@ -1,999999999999999999999 +1 @@\n-a",
    "@@ - + @@",
    "- a\n" * 2_000,
    "!!python/object/apply:os.system [x]",
    '{"type": [[]]}',
    '{"pattern": "(a+)+$"}',
    '{"$ref": "#"}',
    "[" + "1," * 5_000 + "1]",
    '[{"op": "copy", "from": "", "path": "/a"}' + ',{"op": "copy", "from": "", "path": "/a"}' * 39 + "]",
    "a: 2024-13-45",
    "{a: 0x, b: 0b, c: +, d: 1e, e: .}",
    "=: =",
    "<<: a",
    "---\n...\n---",
    "%YAML 9.9\n---\na",
]


def task_of(facts: dict[str, Any] | str) -> Task:
    reference, metadata = (facts, {}) if isinstance(facts, str) else ("", facts)
    return Task(id="x", domain="x", split="train", index=0, prompt=(), reference=reference, metadata=metadata)


KNOWN: dict[str, tuple[dict[str, Any] | str, list[str], list[str]]] = {  # facts, right answers, wrong ones
    "json_patch": (
        {"value": {"a": [1, None], "b": True}},
        ['{"a":[1,null],"b":true}', ' {"b": true,\n "a": [1.0, null]} '],
        ['{"a": [1, null], "b": 1}', '{"a": [null, 1], "b": true}', '{"a": [1, null]}', "```\n{}\n```", "{'b': 1}"],
    ),
    "write_patch": (
        {"before": {"a": 1, "b": [1]}, "after": {"c": 1, "b": [1, 2]}, "most": 2},
        [
            '[{"op": "move", "from": "/a", "path": "/c"}, {"op": "add", "path": "/b/-", "value": 2}]',
            '[{"op": "add", "path": "/b/1", "value": 2}, {"op": "move", "from": "/a", "path": "/c"}]',
        ],
        [
            '[{"op": "replace", "path": "", "value": {"c": 1, "b": [1, 2]}}]',
            '[{"op": "remove", "path": "/a"}, {"op": "add", "path": "/c", "value": 1}, '
            '{"op": "add", "path": "/b/-", "value": 2}]',
            '[{"op": "move", "from": "/a", "path": "/c"}, {"op": "add", "path": "/b/2", "value": 2}]',
            '[{"op": "move", "from": "/a", "path": "/c"}]',
            "[]",
        ],
    ),
    "write_merge_patch": (
        {"before": {"a": 1, "b": {"c": 1, "d": 2}}, "after": {"b": {"c": 1, "d": 3}}, "size": 29},
        ['{"b": {"d": 3}, "a": null}', '{"a":null,"b":{"d":3}}'],
        ['{"a": null, "b": {"c": 1, "d": 3}}', '{"b": {"d": 3}}', '{"a": null}', "null"],
    ),
    "differences": (
        {"pointers": ["/a/0", "/b"]},
        ['["/a/0", "/b"]', '["/b", "/a/0"]'],
        ['["/a/0"]', '["/a/0", "/b", "/b"]', '["/a", "/b"]', '[["/a/0"], "/b"]', '"/b"'],
    ),
    "find_pointer": ("/a~1b/0", ["/a~1b/0"], ["/a/b/0", "a~1b/0", '"/a~1b/0"']),
    "fit_schema": (
        {
            "schema": {
                "type": "object",
                "properties": {"a": {"type": "integer", "multipleOf": 3}, "b": {"enum": ["red", "blue"]}},
                "required": ["a", "b"],
                "additionalProperties": False,
            },
            "known": [["/b", "red"]],
        },
        ['{"b": "red", "a": 9}', '{"a": 0, "b": "red"}'],
        ['{"b": "blue", "a": 9}', '{"b": "red", "a": 8}', '{"b": "red"}', '{"b": "red", "a": 9, "c": 1}'],
    ),
    "infer_schema": (
        {"good": [{"a": 1}, {"a": 5}], "bad": [{"a": 6}, {}, {"a": "1"}]},
        [
            '{"properties": {"a": {"type": "integer", "maximum": 5}}, "required": ["a"]}',
            '{"required": ["a"], "properties": {"a": {"maximum": 5.5, "type": ["number", "null"]}}}',
        ],
        [
            "true",
            "{}",
            '{"enum": [{"a": 1}, {"a": 5}]}',
            '{"properties": {"a": {"type": "integer", "maximum": 4}}, "required": ["a"]}',
            '{"properties": {"a": {"type": "integer", "maximum": 5}}}',
            '{"properties": {"a": {"type": "integer", "maximum": 5, "pattern": "x"}}, "required": ["a"]}',
            '{"properties": {"a": {"type": "whole", "maximum": 5}}, "required": ["a"]}',
            '{"properties": {"a": {"type": "integer", "maximum": "5"}}, "required": ["a"]}',
        ],
    ),
    "function_calls": (
        {"value": [{"name": "f", "arguments": {"x": 1, "y": [True]}}]},
        ['[{"arguments": {"y": [true], "x": 1}, "name": "f"}]'],
        ['[{"name": "f", "arguments": {"x": "1", "y": [true]}}]', '{"name": "f", "arguments": {"x": 1, "y": [true]}}'],
    ),
    "write_csv": (
        {"rows": [["a", "b"], ['x, "y"', "2"]]},
        ['a,b\n"x, ""y""",2', '"a","b"\r\n"x, ""y""","2"\n'],
        ['a,b\n"x, "y"",2', 'a,b\nx, "y",2', 'a,b\n"x, ""y""", 2', 'a;b\n"x, ""y""";2', 'a,b\n"x, ""y""",2\n\n'],
    ),
    "json_lines": (
        {"value": [{"a": 1}, {"a": 2}]},
        ['{"a": 1}\n{"a": 2}', '{"a":1} \n {"a":2}'],
        ['[{"a": 1}, {"a": 2}]', '{"a": 2}\n{"a": 1}', '{"a": 1}, {"a": 2}', '{"a": 1}\n\n{"a": 2}', '{"a": 1}'],
    ),
    "fixed_width": (
        "a..|.b\nc..|12",
        ["a..|.b\nc..|12", "a..|.b \nc..|12"],
        ["a.|.b\nc..|12", "a..|.b", "c..|12\na..|.b"],
    ),
    "write_xml": (
        {"tree": ["a", {"x": "1", "y": "<"}, "", [["b", {}, "t & u", []], ["c", {}, "", []]]]},
        [
            '<a x="1" y="&lt;"><b>t &amp; u</b><c/></a>',
            "<?xml version='1.0'?>\n<a y='&#60;' x='1'>\n  <b><![CDATA[t & u]]></b>\n  <c></c>\n</a>",
        ],
        [
            '<a x="1" y="&lt;"><b>t & u</b><c/></a>',
            '<a x="1" y="&lt;"><c/><b>t &amp; u</b></a>',
            '<a x="1"><b>t &amp; u</b><c/></a>',
            '<a x="1" y="&lt;"><b>t &amp; u</b><c/>',
            '<!DOCTYPE a><a x="1" y="&lt;"><b>t &amp; u</b><c/></a>',
        ],
    ),
    "write_yaml": (
        {"value": {"a": "yes", "b": [1, None], "c": {"d": "x"}}},
        ["a: 'yes'\nb:\n- 1\n- ~\nc:\n  d: x", 'c:\n    d: "x"\nb:\n  - 1\n  - null\na: "yes"'],
        [
            "a: yes\nb:\n- 1\n- ~\nc:\n  d: x",
            "a: 'yes'\nb: [1, null]\nc:\n  d: x",
            "a: 'yes'\nb:\n- 1.0\n- ~\nc:\n  d: x",
            "a: !!str yes\nb:\n- 1\n- ~\nc:\n  d: x",
            "a: 'yes'\na: 'yes'\nb:\n- 1\n- ~\nc:\n  d: x",
            '{"a": "yes", "b": [1, null], "c": {"d": "x"}}',
        ],
    ),
    "write_toml": (
        {"value": {"a": {"x": 1, "y": 1.5, "z": ["b"]}, "t": [{"n": 1}]}},
        ["[a]\nx = 1\ny = 1.5\nz = ['b']\n[[t]]\nn = 1", '[[t]]\nn=1\n[a]\nz=["b"]\ny=15e-1\nx=0b1'],
        ["[a]\nx = 1.0\ny = 1.5\nz = ['b']\n[[t]]\nn = 1", "a = {x = 1, y = 1.5, z = ['b']}\n[[t]]\nn = 1", "a: 1"],
    ),
    "write_ini": (
        {"value": {"a": {"x": "1", "y": "on"}, "b": {"x": "2"}}},
        ["[a]\nx = 1\ny = on\n[b]\nx = 2", "; settings\n[b]\nx=2\n\n[a]\ny=on\nx=1"],
        ["[a]\nx = 1\n[b]\nx = 2", "x = 1\ny = on", "[a]\nx = 1\nx = 1\ny = on\n[b]\nx = 2", "[a]\nx: 1\ny: on"],
    ),
    "markdown_table": (
        {"rows": [["a", "b"], ["1", "x"]], "sides": ["left", "center"]},
        ["| a | b |\n|:--|:-:|\n| 1 | x |", "|a|b|\n| :--- | :---: |\n|1|x|"],
        [
            "| a | b |\n|---|:-:|\n| 1 | x |",
            "a | b\n:--|:-:\n1 | x",
            "| a | b |\n|:--|:-:|\n| 1 |",
            "| a | b |\n| 1 | x |",
        ],
    ),
    "nested_list": (
        {"items": [["a", [["b", []], ["c", []]]], ["d", []]]},
        ["- a\n  - b\n  - c\n- d", "* a\n  * b\n  * c\n* d"],
        [
            "- a\n  - b\n- c\n- d",
            "- a\n - b\n - c\n- d",
            "- a\n    - b\n    - c\n- d",
            "a\n  b\n  c\nd",
            "- d\n- a\n  - b\n  - c",
        ],
    ),
    "write_diff": (
        {"before": ["a", "b", "c"], "after": ["a", "x", "c"], "most": 2},
        ["@@ -2 +2 @@\n-b\n+x", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c", "@@ -2 +2 @@\n+x\n-b"],
        [
            "@@ -1,3 +1,3 @@\n-a\n-b\n-c\n+a\n+x\n+c",
            "@@ -3 +3 @@\n-b\n+x",
            "@@ -2 +3 @@\n-b\n+x",
            "@@ -2 +2,2 @@\n-b\n+x",
            "-b\n+x",
            "@@ -2 +2 @@\n-b\n+y",
        ],
    ),
}


def test_there_are_enough_skills_of_their_own() -> None:
    assert len(SKILLS) >= 35 and len(BY_NAME) == len(SKILLS)
    assert len({(domain.generator_id, domain.verifier_id) for domain in DOMAINS.values()}) == len(SKILLS)


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_judge_on_known_answers(name: str) -> None:
    facts, right, wrong = KNOWN[name]
    task, judge = task_of(facts), BY_NAME[name].judge
    assert {answer: judge(answer, task) for answer in right} == dict.fromkeys(right, 1.0)
    assert {answer: judge(answer, task) for answer in wrong} == dict.fromkeys(wrong, 0.0)


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_judges_never_raise_nor_hang(name: str) -> None:
    task, judge = DOMAINS[f"structured/{name}"].task(0), BY_NAME[name].judge
    start = time.perf_counter()
    assert [judge(answer, task) for answer in HOSTILE] == [0.0] * len(HOSTILE)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("read", [read_json, read_csv, read_xml, read_yaml, read_toml, read_ini, read_table])
def test_readers_refuse_or_read(read: Callable[[str], Any]) -> None:
    for text in HOSTILE:
        start = time.perf_counter()
        with contextlib.suppress(Refused):
            read(text)
        assert time.perf_counter() - start < 1, text[:40]


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=list(DOMAINS))
def test_gold_wins_and_the_prompt_does_not(domain: Domain) -> None:
    for index in range(6):
        task = domain.task(index)
        shown = task.prompt[0].text
        assert score_text(domain, task, domain.gold(task, ()).text).value == 1.0, task.id
        assert shown.isascii() and shown.replace("\n", "").isprintable() and "\t" not in shown
        assert not domain.name.endswith("-easy") or (len(shown) <= 900 and len(task.reference) <= 100)
        for bad in (shown, "", "{}", "[]", "null", "yes", f"{task.reference}\n{task.reference}"):
            assert score_text(domain, task, bad).value == 0.0 or bad == task.reference, (task.id, bad)
        json.dumps(dict(task.metadata))


def test_values() -> None:
    assert same(3, 3.0) and not same(3, 3.0, strict=True) and not same(True, 1) and not same(0, False)
    assert same([0.30000000000000004], [0.3]) and not same("1", 1) and not same(None, False) and not same([], {})
    assert read_json('{"a": "\\u0000"}') == {"a": "\0"}
    for bad in ('{"a": 1, "a": 2}', "NaN", "1e999", '"\\ud800"', "[" * 25 + "]" * 25, "1" * 31, "", "[1] 2"):
        with pytest.raises(Refused):
            read_json(bad)


def test_readers() -> None:
    assert read_csv('a,"b\nc"\n,""\n') == [["a", "b\nc"], ["", ""]] and read_csv("") == [[""]]
    assert read_table("|a|b|\n|-|-:|\n| |x|") == ([["a", "b"], ["", "x"]], ["none", "right"])
    assert read_yaml("a: |\n  x\n  y\nb: [yes, 0x10]") == {"a": "x\ny\n", "b": [True, 16]}
    assert read_ini("[a]\nk = v = w") == {"a": {"k": "v = w"}}
    assert read_xml("<a><!-- c --><b>x</b></a>") == ["a", {}, "", [["b", {}, "x", []]]]
    for bad in ('a"b,c', '"a"b', '"a'):
        with pytest.raises(Refused):
            read_csv(bad)


def test_patches_by_hand() -> None:
    document = {"a": {"b/c": [1, 2]}, "d": None}
    for operation, wanted in (
        ({"op": "add", "path": "/a/b~1c/1", "value": 9}, {"a": {"b/c": [1, 9, 2]}, "d": None}),
        ({"op": "remove", "path": "/a/b~1c/0"}, {"a": {"b/c": [2]}, "d": None}),
        ({"op": "replace", "path": "/a", "value": []}, {"a": [], "d": None}),
        ({"op": "move", "from": "/d", "path": "/a/e"}, {"a": {"b/c": [1, 2], "e": None}}),
        ({"op": "copy", "from": "/a/b~1c/1", "path": "/a/b~1c/-"}, {"a": {"b/c": [1, 2, 2]}, "d": None}),
    ):
        assert patches.apply_patch(document, [operation]) == wanted
    wrong: list[Any] = [
        {"op": "add", "path": "/x/y", "value": 1},
        {"op": "replace", "path": "/x", "value": 1},
        {"op": "remove", "path": "/a/b~1c/2"},
        {"op": "remove", "path": "/a/b~1c/01"},
        {"op": "move", "from": "/a", "path": "/a/f"},
        {"op": "test", "path": "/d", "value": 0},
        {"op": "add", "path": "/a/b~1c/4", "value": 1},
        {"op": ["add"], "path": "/a"},
        [],
    ]
    for bad in wrong:
        with pytest.raises(Refused):
            patches.apply_patch(document, [bad])
    assert document == {"a": {"b/c": [1, 2]}, "d": None}
    # The table of RFC 7396, in part.
    table: list[tuple[Any, Any, Any]] = [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], {"a": "b"}, {"a": "b"}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ]
    for target, patch, merged in table:
        assert merges.merge(target, patch) == merged


def test_paths_by_hand() -> None:
    document = {"a": [{"k": 1, "x": "p"}, {"k": 5, "x": "q"}, {"x": "r"}], "b": {"x": "s"}}

    def run(*steps: tuple[str, Any]) -> list[Any]:
        values: list[Any] = [document]
        for step in steps:
            values = paths.select(values, step)
        return values

    assert run(("deep", "x")) == ["p", "q", "r", "s"]
    assert run(("key", "a"), ("at", -1), ("key", "x")) == ["r"] and run(("key", "a"), ("at", 7)) == []
    assert run(("key", "a"), ("slice", [0, 2]), ("key", "k")) == [1, 5]
    assert run(("key", "a"), ("filter", ["k", ">", 2]), ("key", "x")) == ["q"]
    assert paths.flat_key(("a", 0, "b")) == "a[0].b"


def test_templates_and_diffs_by_hand() -> None:
    data = {"a": "Xy", "no": "", "items": [{"n": 1}, {"n": 2}]}
    assert texts.fill("{{a|upper}}{{a|lower}} {{#each items}}{{n}},{{/each}}", data) == "XYxy 1,2,"
    assert texts.fill("{{#if no}}1{{else}}2{{/if}}{{#if a}}3{{/if}}", data) == "23"
    before = ["a", "b", "c", "d", "e", "f"]
    diff = "@@ -1,2 +1,3 @@\n a\n+x\n b\n@@ -5,2 +6 @@\n e\n-f"
    assert texts.apply_diff(before, diff) == (["a", "x", "b", "c", "d", "e"], 2)
    assert texts.apply_diff(["a"], "@@ -1,0 +2 @@\n+b") == (["a", "b"], 1)
    for index in range(40):
        facts = DOMAINS["structured/write_diff-hard"].task(index).metadata
        assert texts.apply_diff(facts["before"], texts.unified(facts["before"], facts["after"]))[0] == facts["after"]
    task = DOMAINS["structured/invoice-hard"].task(0)
    lines = [(line.split(".")[0].strip(), line.rsplit("..", 1)[-1].strip(".")) for line in task.reference.split("\n")]
    cents = {label: round(float(amount) * 100) for label, amount in lines}
    goods = sum(amount for label, amount in cents.items() if " x " in label)
    less, tax = (next(key for key in cents if key.startswith(word)) for word in ("Less", "Tax"))
    assert cents["Sum"] == goods and cents["Total"] == goods + cents[less] + cents[tax]
    assert abs(cents[less] + goods * int(less[5:-1]) / 100) < 0.01


def test_plain_schemas() -> None:
    assert schemas.plain_schema({"type": ["object", "null"], "items": {"type": "integer"}})
    wrong: list[Any] = [{"$ref": "#"}, {"pattern": "a"}, {"type": "x"}, {"type": [1]}, {"required": [1]}, [], True]
    for bad in [*wrong, {"properties": []}, {"items": {"not": {}}}, {"minimum": True}]:
        assert not schemas.plain_schema(bad)


def test_read_list() -> None:
    assert tables.read_list("- a\n  - b\n    - c\n  - d") == [["a", [["b", [["c", []]]], ["d", []]]]]
