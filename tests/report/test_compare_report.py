"""A refusal explains itself on one screen; an allowed comparison says what it compared and what it is worth."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console, RenderableType

from agenttrace.comparison.compare import compare
from agenttrace.comparison.differences import contract_difference
from agenttrace.comparison.evidence import Repetition
from agenttrace.comparison.outcome import Comparison
from agenttrace.report.compare_report import draw_comparison
from agenttrace.report.metric_table import amount, signed
from agenttrace.report.setting_text import schema_changes, spell
from agenttrace.report.settings_report import draw_contract, draw_difference
from agenttrace.settings.contract import Contract
from tests.builders import a_run
from tests.comparison.builders import UNTOLD, a_contract, changed_to, evidence, repetitions, sites

LONG_PROMPT = "You answer questions about a museum. Quote the note that an answer comes from. Be short and be polite."

SEARCH = {"search": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}}
SEARCH_WITH_LIMIT = {
    "search": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    }
}
HOSTILE = "\x1b[31mred\x07 [bold]x[/bold]\u202e"


def text_of(drawing: RenderableType, width: int = 80) -> str:
    file = StringIO()
    Console(file=file, width=width, highlight=False, markup=False, emoji=False).print(drawing)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def drawn(comparison: Comparison, **options: Any) -> str:
    return text_of(draw_comparison(comparison, **options), options.get("width", 80))


def compared(before: Contract, after: Contract, *changed: str, **fields: Any) -> Comparison:
    return compare(evidence(before, name="main", **fields), evidence(after, name="branch", **fields), changed)


def test_the_refusal_of_the_style_guide() -> None:
    """Every difference with its call site, what it does and both values; the flag; where to read on."""
    before = a_contract({"tools.parameters": SEARCH})
    after = a_contract({"tools.parameters": SEARCH_WITH_LIMIT, "sampling.temperature": 0.7})
    assert drawn(compared(before, after), width=100) == (
        "These runs can't be compared: 2 settings differ.\n"
        "  sampling.temperature  at planner  blocks  baseline 0.0   candidate 0.7\n"
        "  tools.parameters      at planner  blocks  search: 'limit' added (integer, optional)\n"
        "If one of these is what you are testing, say so:\n"
        "  --changed sampling.temperature\n"
        "  --changed tools.parameters\n"
        "All of it in full:\n"
        "  agenttrace settings main1234 branch12\n"
        "See docs/messages.md#settings-differ\n"
    )


def test_call_sites_with_the_same_difference_share_a_line() -> None:
    """An agent of many nodes is refused on one screen as well."""
    hot = {"sampling.temperature": 0.7}
    before = sites(*(a_contract(site=f"node{n}") for n in range(3)))
    after = sites(*(a_contract(hot, site=f"node{n}") for n in range(3)))
    text = drawn(compared(before, after))
    assert "at node0, node1, node2" in text
    assert "1 setting differs" in text
    assert text.count("sampling.temperature ") == 1


def test_long_values_are_shown_where_they_differ() -> None:
    """Two prompts of a page that differ in a word are told apart at a glance."""
    text = drawn(
        compared(
            changed_to(prompt__content=LONG_PROMPT), changed_to(prompt__content=LONG_PROMPT.replace("short", "brief"))
        )
    )
    assert 'baseline  "…omes from. Be short and be polite."' in text
    assert 'candidate "…omes from. Be brief and be polite."' in text


def test_every_kind_of_difference_is_readable() -> None:
    """Unset, unknown and several values are words, not blanks."""
    before = a_contract(
        {"sampling.top_p": None, "sampling.stop": ["END", "STOP"], "provider": "openai", "tools.names": ["a", "b"]}
    )
    after = a_contract({"sampling.top_p": 0.9, "sampling.stop": None, "provider": UNTOLD, "tools.names": ["b", "c"]})
    text = drawn(compared(before, after), width=120)
    assert "baseline unset   candidate 0.9" in text
    assert "baseline END, STOP   candidate unset" in text
    assert "baseline openai   candidate unknown" in text
    assert "'c' added" in text
    assert "'a' removed" in text


def test_a_change_within_a_run_names_its_cases() -> None:
    """From which case on, and all that are affected; nothing declares it."""
    cases = tuple(f"q{n}" for n in range(12))
    steady = a_contract(*({"model.served": "old"} for _ in cases), cases=cases)
    drifted = a_contract(*({"model.served": "old" if n < 4 else "new"} for n in range(12)), cases=cases)
    text = drawn(compared(steady, drifted), width=120)
    assert "candidate old, then new from case q4" in text
    assert "affected cases of the candidate: q4, q5, q6, q7, q8, q9 and 2 more" in text
    assert "model.served cannot be declared like this" in text
    assert "--changed" not in text


def test_other_cases_are_named() -> None:
    """Which are in one run only, and what to do."""
    before, after = (evidence(repetitions=repetitions({case: [1] for case in cases})) for cases in ("ab", "bc"))
    text = drawn(compare(before, after))
    assert "only in the baseline: a" in text
    assert "only in the candidate: c" in text
    assert "Record both runs over the same cases." in text


def test_an_invalid_run_says_why() -> None:
    """The reason, and no numbers."""
    text = drawn(compare(evidence(is_unfinished=True), evidence()))
    assert text.startswith("These runs can't be judged.\n  The baseline nightly (nightly1) is unfinished")
    assert "See docs/messages.md#invalid-run" in text


def test_an_allowed_comparison_on_one_screen() -> None:
    """Treatment, metrics paired by case, the cases that differ most, the verdict and its honest reason."""
    runs = [
        evidence(
            contract, name=name,
            repetitions=tuple(
                Repetition(case=f"q{n}", number=1, scores={"correct": score}, metrics={"latency_s": 1 + score, "input_tokens": 1234})
                for n, score in enumerate(scores)
            ),
        )
        for name, contract, scores in (
            ("main", a_contract(), (1, 1, 0, 1)), ("branch", changed_to(sampling__temperature=0.7), (1, 0, 0, 1)),
        )
    ]  # fmt: skip
    assert drawn(compare(runs[0], runs[1], ["sampling.temperature"])) == (
        "baseline main (main1234)  candidate branch (branch12)  4 cases in both\n"
        "\n"
        "Treatment, declared to differ:\n"
        "  sampling.temperature  at planner  baseline 0.0   candidate 0.7\n"
        "\n"
        "  metric                       means  change     90 % interval\n"
        "  correct                 0.75 → 0.5   −0.25  −0.732 to +0.399  inconclusive\n"
        "  latency_s           1.75 s → 1.5 s   −16 %    −44 % to +26 %\n"
        "  input_tokens         1,234 → 1,234     0 %        0 % to 0 %\n"
        "  input_tokens total   4,936 → 4,936     0 %        0 % to 0 %\n"
        "\n"
        "Cases that differ most:\n"
        "  case  correct      latency_s\n"
        "  q1      1 → 0  2.0 s → 1.0 s  flipped\n"
        "\n"
        "Verdict: inconclusive\n"
        "  correct decides nothing. 4 paired cases, and at least 5 are asked for. About\n"
        "  25 cases would decide it: 42 more attempts, 68 s one after another.\n"
    )


def test_confounded_and_unverified_are_labels_of_the_numbers() -> None:
    """Two changes at once, and what is not known, stand above the table."""
    before = changed_to(sampling__top_k=UNTOLD, sampling__min_p=UNTOLD, limits__context=UNTOLD)
    after = changed_to(
        sampling__top_k=UNTOLD, sampling__min_p=UNTOLD, limits__context=UNTOLD,
        sampling__temperature=0.7, prompt__content="Other.",
    )  # fmt: skip
    text = drawn(compared(before, after, "sampling.temperature", "prompt.content"))
    assert "Confounded: sampling.temperature, prompt.content changed together" in text
    assert "sampling.top_k, .min_p, limits.context at planner: neither run tells it" in text
    assert text.index("Confounded") < text.index("Unverified") < text.index("metric")


def test_times_that_are_not_comparable_say_so() -> None:
    """The table keeps both values and gives no difference; the flag is told."""
    timed = (Repetition(case="q1", number=1, scores={"a": 1.0}, metrics={"latency_s": 1.0}),)
    text = drawn(compared(a_contract(), changed_to(endpoint="other"), repetitions=timed), width=120)
    assert "endpoint  at planner  blocks times  baseline api.openai.com   candidate other" in text
    assert "not comparable" in text
    assert "--changed endpoint" in text


def test_recorded_text_is_never_obeyed() -> None:
    """Escape sequences, control characters and markup in names, values and cases are shown, not followed."""
    cases = tuple(f"{HOSTILE}{n}" for n in range(3))
    before = a_contract({"model.served": HOSTILE, "zz" + HOSTILE: 1}, site=HOSTILE, cases=cases)
    after = a_contract(
        *({"model.served": f"{HOSTILE}{n // 2}", "prompt.content": HOSTILE * 9} for n in range(5)),
        site=HOSTILE,
        cases=cases,
    )
    refused = compare(
        evidence(before, name=HOSTILE, repetitions=repetitions({HOSTILE: [1]})),
        evidence(after, name=HOSTILE, repetitions=repetitions({"q": [1]})),
    )
    found = contract_difference(before, after)
    run = a_run(run_id=HOSTILE, name=HOSTILE)
    drawings = (
        draw_comparison(refused),
        draw_contract(run, after),
        draw_difference(run, run, found, has_common_site=True),
        draw_comparison(
            compare(
                evidence(before, repetitions=repetitions({HOSTILE: [1]})),
                evidence(before, repetitions=repetitions({HOSTILE: [0]})),
            )
        ),
    )
    for drawing in drawings:
        text = text_of(drawing, 200)
        assert not {"\x1b", "\x07", "\u202e"} & set(text)
        assert "[bold]x[/bold]" in text


def test_a_contract_is_drawn_by_call_site() -> None:
    """Values with who told them, what is unset and unknown in a line each, and what a prompt hides."""
    cases = ("q1", "q2", "q3")
    contract = sites(
        a_contract(*({"prompt.content": f"Answer {case}", "sampling.top_k": UNTOLD} for case in cases), cases=cases),
        a_contract({"model.served": "a"}, {"model.served": "b"}, {"model.served": "a"}, site="writer", cases=cases),
    )
    text = text_of(draw_contract(a_run(run_id="0123456789", name="nightly"), contract), 100)
    assert text.startswith("run nightly (01234567)  6 model calls at 2 call sites\n\nplanner  3 calls\n")
    assert "  sampling.temperature  requested  0.0\n" in text
    assert "  unset: sampling.top_p, .min_p, .n," in text
    assert "  unknown: sampling.top_k\n" in text
    assert "rendered with the input: 3 texts" in text
    assert "a  2 calls" in text
    assert "b  1 call" in text


def test_a_run_without_model_calls_is_drawn_as_such() -> None:
    """An empty contract is a sentence."""
    assert "no finished model call" in text_of(draw_contract(a_run(), Contract()))


def test_the_difference_of_two_contracts_is_a_diff() -> None:
    """A prompt is compared line by line, a schema property by property and in full."""
    old = "You are terse.\nQuote the note that the answer comes from.\nNever guess what is not in a note."
    before = a_contract({"prompt.content": old, "tools.parameters": SEARCH})
    after = a_contract({"prompt.content": old.replace("terse", "kind"), "tools.parameters": SEARCH_WITH_LIMIT})
    found = contract_difference(before, after)
    text = text_of(draw_difference(a_run(name="main"), a_run(name="branch"), found, has_common_site=True))
    assert "prompt.content  at planner  blocks\n  --- baseline\n  +++ candidate\n" in text
    assert "  -You are terse.\n  +You are kind.\n   Quote the note" in text
    assert "  search: 'limit' added (integer, optional)\n" in text
    assert '  +      "limit": {\n' in text


def test_equal_contracts_have_no_difference() -> None:
    """Nothing differs, as far as is known."""
    found = contract_difference(a_contract(), a_contract())
    text = text_of(draw_difference(a_run(), a_run(), found, has_common_site=True))
    assert "No setting differs, as far as is known." in text


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ({}, {"properties": {"a": {"type": "string"}}, "required": ["a"]}, ["'a' added (string, required)"]),
        ({"properties": {"a": {}}}, {"properties": {}}, ["'a' removed"]),
        ({}, {"properties": {"a": {}}}, ["'a' added (any type, optional)"]),
        (
            {"properties": {"a": {"type": "string"}}},
            {"properties": {"a": {"type": "integer"}}},
            ["'a' string → integer"],
        ),
        ({"properties": {"a": {"default": 5}}}, {"properties": {"a": {"default": 10}}}, ["'a' default 5 → 10"]),
        ({"properties": {"a": {}}}, {"properties": {"a": {}}, "required": ["a"]}, ["'a' required now"]),
        ({"properties": {"a": {}}, "required": ["a"]}, {"properties": {"a": {}}}, ["'a' optional now"]),
        (
            {"properties": {"a": {"properties": {"b": {"type": "string"}}}}},
            {"properties": {"a": {"properties": {}}}},
            ["'a.b' removed"],
        ),
        ({"additionalProperties": False}, {}, ["additionalProperties false → unset"]),
        ({"properties": [1]}, {"properties": "x", "required": 3}, []),
    ],
)
def test_schemas_differ_by_property(before: Any, after: Any, lines: list[str]) -> None:
    """A schema's difference is a sentence a property; one that makes no sense is no reason to fail."""
    assert list(schema_changes("", before, after)) == lines


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "unset"), ("gpt-5-mini", "gpt-5-mini"), ("", '""'), ("0.7", '"0.7"'), ("true", '"true"'),
        ("two words", '"two words"'), (0.0, "0.0"), (True, "true"), (["a", "b"], "a, b"), (["a b"], '["a b"]'),
        ([], "[]"), ({"a": 1}, '{"a": 1}'), ("unknown", '"unknown"'), ("\x1b", "\\x1b"),
    ],
)  # fmt: skip
def test_values_are_spelt_so_that_they_are_not_confused(value: Any, text: str) -> None:
    """A text that reads like a number or a state has quotes."""
    assert spell(value) == text


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [("score", 0.825, "0.825"), ("score", 1.0, "1"), ("score", 0.0, "0"), ("score", -0.0351, "−0.035"),
     ("cost", 12345.6, "12,346"), ("cost", 123.45, "123.5"), ("time", 1.2, "1.2 s"), ("score", -0.0001, "0")],
)  # fmt: skip
def test_amounts(kind: str, value: float, text: str) -> None:
    """Three digits or so, times with their unit."""
    assert amount(kind, value) == text


def test_differences_have_a_sign() -> None:
    """A difference of nothing has none."""
    assert (signed("score", 0.05), signed("score", -0.05), signed("score", 0.00001)) == ("+0.05", "−0.05", "0")
    assert signed("time", 0.0) == amount("time", 0.0)
