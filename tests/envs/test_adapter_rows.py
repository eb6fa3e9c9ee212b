"""Data sets as domains: a file, rows, errors that name file, key and remedy, and the judges of the table by hand."""

import json
from pathlib import Path

import pytest

from envs.adapters import absolute
from envs.adapters.judges import JUDGES, after, as_number, boxed
from envs.adapters.settings import read_settings
from envs.adapters.template import Template
from envs.check import check_domains
from envs.demonstrate import score_text
from envs.domain import Domain, side_of
from envs.families import all_domains, with_families
from envs.types import Task

EXAMPLE = Path(__file__).resolve().parents[2] / "envs" / "adapters" / "examples" / "stories.yaml"
GOOD = 'adapter: datasets\npath: rows.jsonl\nprompt: "{q}"\nanswer: "{a}"\nverifier: integer\n'


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)


def rows(count: int = 40) -> list[dict[str, object]]:
    return [{"q": f"{i}+{i}?", "a": 2 * i, "fold": "dev" if i % 4 == 0 else "train"} for i in range(count)]


def family(folder: Path, text: str = GOOD, data: list[dict[str, object]] | None = None) -> dict[str, Domain]:
    lines = [json.dumps(row) for row in (rows() if data is None else data)]
    (folder / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (folder / "mine.yaml").write_text(text)
    return all_domains(with_families({"mine": str(folder / "mine.yaml")}, {}))


def test_the_example_keeps_its_promises() -> None:
    paths = {"stories": str(EXAMPLE)}
    domains = all_domains(with_families(paths, {}))
    assert list(domains) == ["stories/buying", "stories/sharing"]
    checks = check_domains(domains, 5, paths)
    assert [check.problems + check.warnings for check in checks] == [[], []]
    domain = domains["stories/buying"]
    assert len({domain.generator_id for domain in domains.values()}) == 1  # a value of a column is no other skill
    size = domain.num_distinct
    assert size is not None
    first, again = domain.task(0), domain.task(size)
    assert (first.prompt, first.split, first.reference) == (again.prompt, again.split, again.reference)
    assert score_text(domain, first, f"<answer>{first.reference}</answer>").value == 1.0
    for wrong in ("", str(int(first.reference) + 1), first.prompt[-1].text, f"{first.reference}.0", "9" * 3000):
        assert score_text(domain, first, wrong).value == 0.0


def test_rows_become_tasks_and_duplicates_are_counted(tmp_path: Path) -> None:
    (domain,) = family(tmp_path, data=[*rows(), *rows(3)]).values()
    assert domain.num_distinct == 40 and domain.knobs["duplicates left out"] == 3
    task = domain.task(3)
    assert task.prompt[0].text.startswith("3+3?") and task.reference == "6"


def test_held_out_by_a_column_and_by_another_file(tmp_path: Path) -> None:
    (domain,) = family(tmp_path, GOOD + "held_out: {column: fold, values: [dev]}\n").values()
    tasks = [domain.task(i) for i in range(40)]
    assert [task.split for task in tasks[:5]] == ["held_out", "train", "train", "train", "held_out"]
    assert all(side_of(task) == task.split for task in tasks)
    # A prompt in both files is held out, and not trained on.
    (tmp_path / "dev.jsonl").write_text('{"q": "3+3?", "a": 6}\n{"q": "new?", "a": 1}\n')
    (domain,) = family(tmp_path, GOOD + "held_out: {path: dev.jsonl}\n").values()
    tasks = [domain.task(i) for i in range(41)]
    assert [task.split for task in tasks].count("held_out") == 2 and domain.num_distinct == 41
    assert [task.split for task in tasks if task.prompt[0].text.startswith("3+3?")] == ["held_out"]


def test_choices_csv_system_and_shuffling(tmp_path: Path) -> None:
    data: list[dict[str, object]] = [
        {"q": f"{i}+1?", "options": [str(i), str(i + 1)], "a": 1 - i % 2} for i in range(30)
    ]
    for row in data:
        row["options"] = row["options"] if row["a"] else list(reversed(row["options"]))  # type: ignore[call-overload]
    text = (
        GOOD.replace('"{q}"', '"{q}\\n{choices}"').replace("integer", "choice") + "choices: options\nsystem: Think.\n"
    )
    (domain,) = family(tmp_path, text, data).values()
    task = domain.task(2)
    assert [message.role for message in task.prompt] == ["system", "user"]
    assert "A. 2\nB. 3" in task.prompt[1].text and task.reference == "B"
    assert score_text(domain, task, "<answer>(b)</answer>").value == 1.0
    (tmp_path / "rows.csv").write_text("q,a\n" + "".join(f"what {i}?,00{i}\n" for i in range(30)) + "gap?,NA\n")
    text = GOOD.replace("rows.jsonl", "rows.csv").replace("integer", "exact") + "shuffle_seed: 1\n"
    (domain,) = family(tmp_path, text).values()
    found = {domain.task(i).reference for i in range(31)}
    assert "007" in found and "NA" in found and domain.task(0).reference != "000"
    (fewer,) = family(tmp_path, text + "limit: 20\n").values()
    assert fewer.num_distinct == 20 and fewer.task(0).reference == domain.task(0).reference


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("verifier: integer", "verifier: integr"), "verifier: 'integr' is none of .*did you mean 'integer'"),
        (("{a}", "{b}"), "there is no column 'b' in rows.jsonl; its columns are q, a, fold"),
        (("{q}", "{q.__class__}"), "prompt: .*asks for an attribute"),
        (("{q}", "{q[0]}"), "prompt: .*asks for an index"),
        (("{q}", "{q!r}"), "prompt: .*has a format"),
        (("{q}", "{q"), "prompt: .*is no template"),
        (("path: rows.jsonl", "path: none.jsonl"), "path: there is no .*none.jsonl; it is relative to"),
        (("path: rows.jsonl", "path: nobody/nothing-here"), "path: the library `datasets` cannot load it"),
        (("prompt:", "promt:"), "prompt: it is missing"),
        (("adapter: datasets", "adapter: dataset"), "adapter: 'dataset' is none of .*did you mean 'datasets'"),
        (("{a}", "{fold}"), "row 0 of rows.jsonl: its answer 'dev' is none that `verifier: integer` takes"),
        (("verifier: integer", "verifier: integer\nlimit: 0"), "limit: it must be a whole number, 1 or more"),
        (("verifier: integer", "verifier: integer\nlimit: 1"), "none is (train|held_out); add rows"),
        (("verifier: integer", "verifier: integer\nshufle_seed: 1"), "no such key; did you mean 'shuffle_seed'"),
        (("verifier: integer", "verifier: integer\nverifier: exact"), "'verifier' is there twice"),
        (("verifier: integer", "verifier: integer\ntolerance: 1"), "only `verifier: number` reads it"),
        (("verifier: integer", 'verifier: integer\nextract: {after: "#"}'), "it has no '#' to extract"),
        (("verifier: integer", "verifier: integer\nsha256: abc"), "sha256: the data is sha256:"),
        (("verifier: integer", "verifier: !!python/object:os.system x"), "is no YAML that an adapter reads"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=rf"(?s)mine\.yaml.*{says}"):
        family(tmp_path, GOOD.replace(*change))


def test_bad_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"row 40 of rows.jsonl: 'q' is empty \(null\), not a text"):
        family(tmp_path, data=[*rows(), {"q": None, "a": 1}])
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"mine\.yaml: path: "):
        family(tmp_path, GOOD.replace("rows.jsonl", "empty.jsonl"))
    with pytest.raises(ValueError, match="small letters"):
        read_settings("My family", tmp_path / "mine.yaml")
    assert absolute({"a": "x.yaml", "b": "p.m:F"}) == {"a": str(Path("x.yaml").absolute()), "b": "p.m:F"}


JUDGED = [
    ("integer", "1,234", ["1234", "+1234", " 1,234 "], ["1234.0", "12,34", "123", "", "1234 apples", "9" * 5000]),
    ("number", "0.5", [".5", "1/2", "0.50"], ["5", "1/0", "half", "5e-1", "1/2/1", "nan", "Infinity"]),
    ("choice", "B", ["b", "(B)", "B.", "B)"], ["A", "", "BB", "A or B", "(", "é"]),
    (
        "json",
        '{"a": [1, 2.0]}',
        ['{"a":[1.0,2]}'],
        ['{"a":[2,1]}', '{"a":[true,2]}', "[" * 10000, "NaN", '{"a":1,"a":[1,2]}'],
    ),
    ("set", "red, Blue", ["blue,red"], ["red", "red,blue,blue", "", ",", "red blue"]),
    ("words", "New York", ["new  york"], ["newyork", "york new", ""]),
    ("exact", "New York", [" New York\n"], ["new york", ""]),
    (
        "math",
        r"\frac{3}{4}",
        ["0.75", r"$\dfrac34$", "3/4", r"\boxed{\frac{3}{4}}"],
        ["4/3", "", r"\frac{3}{5}", "{" * 3000],
    ),
    ("math", "x^{2}+1", ["x^2 + 1", r"\(x^2+1\)"], ["x^2", "1+x^2", "9**9**9"]),
]


@pytest.mark.parametrize(("name", "reference", "right", "wrong"), JUDGED)
def test_the_judges_by_hand(name: str, reference: str, right: list[str], wrong: list[str]) -> None:
    task = Task(id="", domain="", split="train", index=0, prompt=(), reference=reference)
    assert [answer for answer in [reference, *right] if JUDGES[name](answer, task) != 1.0] == []
    assert [answer for answer in wrong if JUDGES[name](answer, task) != 0.0] == []


def test_small_parts() -> None:
    near = Task(id="", domain="", split="train", index=0, prompt=(), reference="200", metadata={"tolerance": 0.01})
    assert [JUDGES["number"](answer, near) for answer in ("202", "202.1")] == [1.0, 0.0]
    assert as_number("7" * 200) is None
    assert after("####")("so #### 1 #### 4 ") == "4" and boxed(r"a \boxed{\frac{1}{2}} b") == r"\frac{1}{2}"
    with pytest.raises(ValueError, match="boxed"):
        boxed(r"\boxed{1")
    assert Template("{{x}} {a b}").fill({"a b": True}) == "{x} true"
