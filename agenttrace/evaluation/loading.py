"""Reads cases from files (JSON Lines, CSV, YAML) and from Phoenix. All that is wrong in a file is told at once."""

from __future__ import annotations

import csv
import http.client
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from agenttrace.errors import CasesUnreachable, InvalidCases, MissingExtra
from agenttrace.evaluation.cases import Case, all_problems, checked

KEYS = ("id", "input", "expected", "cluster", "tags", "metadata")

Numbered = Iterator[tuple[str, Any]]
"""Where a record stands, and the record, or the `ValueError` that it is not."""


def load_cases(path: Path) -> tuple[Case, ...]:
    """The cases of a file, by its suffix: `.jsonl`, `.csv`, `.yaml` or `.yml`.

    Raises:
        InvalidCases: the file is not there or of another kind, or lines of it are no cases.
    """
    readers = {".jsonl": _json_lines, ".ndjson": _json_lines, ".csv": _csv, ".yaml": _yaml, ".yml": _yaml}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidCases(f"{path} is no file of cases by its name. Name a .jsonl, .csv or .yaml file.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidCases(f"The cases in {path} cannot be read: {error}. Name a text file in UTF-8.") from error
    cases: list[Case] = []
    places: dict[int, str] = {}
    problems: list[str] = []
    for place, record in reader(text):
        try:
            case = _case(record)
        except ValueError as error:
            problems.append(f"{place}: {error}")
        else:
            places[len(cases)] = place
            cases.append(case)
    if problems:
        raise InvalidCases(all_problems(f"{path.name} cannot be used", problems))
    if not cases:
        raise InvalidCases(f"{path} holds no case. Give it at least one.")
    return checked(cases, places)


def _json_lines(text: str) -> Numbered:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                record = ValueError(f"this is no JSON ({error})")
            yield f"line {number}", record


def _csv(text: str) -> Numbered:
    """Columns are the keys of a case, `input.question` a key within the input, and any other one its metadata."""
    rows = csv.DictReader(io.StringIO(text), restkey="", strict=True)
    try:
        for row in rows:
            place = f"line {rows.line_num}"
            if "" in row or None in row.values():
                yield place, ValueError(f"it has not as many fields as the heading ({len(rows.fieldnames or ())})")
            else:
                yield place, _from_columns(row)
    except csv.Error as error:
        yield f"line {rows.line_num}", ValueError(f"this is no CSV ({error})")


def _from_columns(row: Mapping[str, str]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for column, text in row.items():
        key, _, inner = column.partition(".")
        if key not in KEYS:
            record.setdefault("metadata", {})[column] = text
        elif inner:
            record.setdefault(key, {})[inner] = text
        elif key == "tags":
            record[key] = text.split()
        elif text or key in ("input", "expected"):
            record[key] = text
    return record


def _yaml(text: str) -> Numbered:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise MissingExtra("eval", "Reading cases from YAML") from error
    try:
        records = yaml.safe_load(text)
    except yaml.YAMLError as error:
        yield "the file", ValueError(f"this is no YAML ({' '.join(str(error).split())})")
        return
    if records is not None and not isinstance(records, list):
        yield "the file", ValueError("it holds no list of cases: begin each with '- input: …'")
        return
    yield from ((f"case {number}", record) for number, record in enumerate(records or (), 1))


def _case(record: Any) -> Case:
    """A case from a file's record. Raises `ValueError` that says what is wrong with it."""
    if isinstance(record, ValueError):
        raise record
    if not isinstance(record, Mapping):
        raise ValueError("this is no object with 'input'")
    unknown = sorted(str(key) for key in record if key not in KEYS)
    if unknown:
        raise ValueError(f"'{unknown[0]}' is no key of a case. There are: {', '.join(KEYS)}; others go into 'metadata'")
    if record.get("input") is None:
        raise ValueError("it has no 'input'")
    name, cluster, tags, metadata = (record.get(key) for key in ("id", "cluster", "tags", "metadata"))
    if (name is not None and not isinstance(name, (str, int))) or isinstance(name, bool):
        raise ValueError("'id' is no text")
    if not isinstance(tags or (), (list, tuple)) or not all(isinstance(tag, str) for tag in tags or ()):
        raise ValueError("'tags' is no list of texts")
    if not isinstance(metadata or {}, Mapping):
        raise ValueError("'metadata' is no object")
    return Case(
        id="" if name is None else str(name),
        input=record["input"],
        expected=record.get("expected"),
        cluster=None if cluster is None else str(cluster),
        tags=tuple(tags or ()),
        metadata=dict(metadata or {}),
    )


def phoenix_dataset(name: str, *, url: str = "http://127.0.0.1:6006", api_key: str | None = None) -> tuple[Case, ...]:
    """The latest version of a dataset of Phoenix: an example's input, output (as `expected`), metadata and id.

    Raises:
        CasesUnreachable: Phoenix does not answer, refuses, or has no dataset of that name.
    """
    datasets = _ask(url, f"/v1/datasets?name={quote(name)}", api_key)
    if not datasets:
        raise CasesUnreachable(f"Phoenix at {url} has no dataset '{name}'. Its page 'Datasets' lists what it has.")
    examples = _ask(url, f"/v1/datasets/{quote(datasets[0]['id'], safe='')}/examples", api_key)["examples"]
    return checked(
        Case(id=str(item["id"]), input=item["input"], expected=item["output"], metadata=item.get("metadata") or {})
        for item in examples
    )


def _ask(url: str, path: str, api_key: str | None) -> Any:
    address = urlsplit(url)
    # http.client and not urllib: it knows no proxies, so loopback stays loopback.
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.netloc, timeout=30)
    try:
        headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        connection.request("GET", f"{address.path.rstrip('/')}{path}", headers=headers)
        response = connection.getresponse()
        body = response.read()
        if response.status != http.HTTPStatus.OK:
            raise CasesUnreachable(
                f"Phoenix at {url} answers {response.status} {response.reason}. Check url and api_key."
            )
        return json.loads(body)["data"]
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        raise CasesUnreachable(
            f"No dataset can be read from Phoenix at {url}: {error}. Check that it runs there."
        ) from error
    finally:
        connection.close()


def selected(cases: Sequence[Case], wanted: Sequence[str]) -> tuple[Case, ...]:
    """The cases that were asked for by id or by `tag:NAME`, in the suite's order; all where nothing was asked.

    Raises:
        InvalidCases: nothing has such an id or tag.
    """
    if not wanted:
        return tuple(cases)
    ids, tags = {case.id for case in cases}, {tag for case in cases for tag in case.tags}
    unknown = [name for name in wanted if name not in ids and name.removeprefix("tag:") not in tags]
    if unknown:
        from difflib import get_close_matches

        near = get_close_matches(unknown[0], sorted(ids), n=1)
        advice = f"Did you mean '{near[0]}'?" if near else f"It has {len(ids)} cases, the first is '{cases[0].id}'."
        raise InvalidCases(f"The suite has no case '{unknown[0]}'. {advice}")
    return tuple(case for case in cases if case.id in wanted or any(f"tag:{tag}" in wanted for tag in case.tags))
