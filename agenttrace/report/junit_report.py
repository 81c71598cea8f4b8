"""Writes a comparison as JUnit XML, which CI systems read: a test for the verdict, for each primary metric, for each case.

It is red exactly where `compare` ends with another exit code than 0: where the verdict stands, no single case fails the build.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from agenttrace.comparison.outcome import Comparison, MetricComparison
from agenttrace.comparison.pairing import PairedCase
from agenttrace.comparison.wording import metric_sentence
from agenttrace.report.compare_report import case_value, flags_text, scores_shown, verdict_line
from agenttrace.report.escaping import visible, visible_lines

NAME = 200

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to write (section 2.2)."""


def junit_report(comparison: Comparison) -> bytes:
    """The whole file, UTF-8."""
    title = f"agenttrace compare {comparison.baseline.name} {comparison.candidate.name}"
    root = Element("testsuites")
    suite = SubElement(root, "testsuite", name=_line(title))
    _verdict(suite, comparison)
    for metric in comparison.primary:
        _metric(suite, metric, comparison)
    for case in sorted(comparison.cases, key=lambda case: case.case):
        _case(suite, case, comparison)
    for element in (root, suite):
        for name, tags in (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            element.set(name, str(sum(1 for _ in suite.iter(tags))))
    indent(root)
    return bytes(tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _test(suite: Element, kind: str, name: str) -> Element:
    return SubElement(suite, "testcase", classname=f"agenttrace.{kind}", name=_line(name))


def _say(test: Element, tag: str, message: str, text: str) -> None:
    SubElement(test, tag, message=_line(message), type=tag).text = _lines(text)


def _verdict(suite: Element, comparison: Comparison) -> None:
    test = _test(suite, "verdict", "verdict")
    line, reasons = verdict_line(comparison), "\n".join((*comparison.reasons, *comparison.notes))
    if comparison.verdict in ("not_comparable", "invalid"):
        _say(test, "error", line, reasons)
    elif comparison.exit_code:
        _say(test, "failure", line, reasons)
    elif comparison.verdict == "inconclusive":
        _say(test, "skipped", line, reasons)
    else:
        SubElement(test, "system-out").text = _lines(f"{line}\n{reasons}")


def _metric(suite: Element, metric: MetricComparison, comparison: Comparison) -> None:
    test = _test(suite, "metric", metric.name)
    sentence = metric_sentence(metric)
    if metric.verdict == "regressed" and comparison.exit_code:
        _say(test, "failure", "regressed", sentence)
    elif metric.verdict != "pass":
        _say(test, "skipped", metric.verdict.replace("_", " "), sentence)
    else:
        SubElement(test, "system-out").text = _lines(sentence)


def _case(suite: Element, case: PairedCase, comparison: Comparison) -> None:
    test = _test(suite, "case", case.case)
    text = "\n".join(_case_lines(case, comparison))
    flags = {flag.flag for flag in comparison.flags.get(case.case, ())}
    if "regressed" in flags and comparison.verdict == "regressed":
        _say(test, "failure", flags_text(comparison, case), text)
    else:
        SubElement(test, "system-out").text = _lines(text)


def _case_lines(case: PairedCase, comparison: Comparison) -> Iterator[str]:
    if flags := flags_text(comparison, case):
        yield flags
    for name in scores_shown(comparison, None):
        yield f"{name}: {case_value(case, name, is_score=True)}"
    yield f"latency_s: {case_value(case, 'latency_s', is_score=False)}"
    for side, traces in zip(("baseline", "candidate"), comparison.traces.get(case.case, ((), ())), strict=True):
        for trace in traces:
            yield f"{side}: agenttrace show {trace}"


def _line(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", visible(text, limit=NAME))


def _lines(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", visible_lines(text))
