"""docs/schema.md, made from the schema's SQL: `make docs` writes it, a test compares it."""

from __future__ import annotations

import re
from pathlib import Path

from agenttrace.store.schema import SCHEMA, SCHEMA_VERSION, VIEWS

PAGE = Path(__file__).parents[2] / "docs" / "schema.md"

HEAD = f"""# The schema

*Made from `agenttrace/store/schema.py` by `make docs`; a test compares them. Schema version {SCHEMA_VERSION}.*

A store is a folder, and `traces.duckdb` in it a DuckDB file that any DuckDB from 1.5.5 on opens. Ask it questions with
`agenttrace sql`, which sees what running agents have just recorded.

- A time that something happened is in nanoseconds since 1970 UTC, a duration in nanoseconds; their names end in `_ns`.
  In views, durations are seconds, and their names end in `_s` or are `seconds`.
- NULL is unknown, never zero.
- In JSON of `spans`, `{{"@content": hash}}` stands for a row of `contents`, `{{"@chain": hash}}` for a row of `links` and
  all before it.
"""


def page() -> str:
    views = "\n".join(
        f"### {name}\n\n{about}\n\n{columns}\n" for name, about, columns in map(_view, _statements(VIEWS))
    )
    tables = "\n".join(f"### {name}\n\n{about}\n\n{table}\n" for name, about, table in map(_table, _statements(SCHEMA)))
    return f"{HEAD}\n## Views\n\n{views}\n## Tables\n\n{tables}"


def _statements(sql: str) -> list[str]:
    return [statement for statement in sql.strip().split("\n\n") if statement]


def _about(statement: str) -> str:
    lines = [line[3:] for line in statement.splitlines() if line.startswith("-- ")]
    return " ".join(lines)


def _table(statement: str) -> tuple[str, str, str]:
    [name] = re.findall(r"^CREATE TABLE (\w+)", statement, re.MULTILINE)
    columns = re.findall(r'^    ("?\w+"?)\s+([^-\n]+?),?\s*(?:-- (.*))?$', statement, re.MULTILINE)
    rows = [f"| `{column.strip(chr(34))}` | {_kind(kind)} | {about} |" for column, kind, about in columns]
    return name, _about(statement), "\n".join(["| column | type | |", "|---|---|---|", *rows])


def _kind(declared: str) -> str:
    return declared.replace(" USING COMPRESSION zstd", "").replace(" NOT NULL", "").strip() + (
        "" if "NOT NULL" in declared else ", may be NULL"
    )


def _view(statement: str) -> tuple[str, str, str]:
    [name] = re.findall(r"^CREATE OR REPLACE VIEW (\w+)", statement, re.MULTILINE)
    return name, _about(statement), f"```sql\n{statement[statement.index('CREATE') :]}\n```"


if __name__ == "__main__":
    PAGE.write_text(page())
