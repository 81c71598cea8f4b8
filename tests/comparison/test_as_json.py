"""The JSON of a comparison has the shape that its schema promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from agenttrace.comparison.as_json import SCHEMA, comparison_json
from agenttrace.comparison.outcome import Comparison
from tests.report.reports import hostile, refused, regressed, undecided

FILE = Path(__file__).parents[2] / "docs" / "comparison.schema.json"


@pytest.mark.parametrize("comparison", [regressed(), refused(), undecided(), hostile()])
def test_it_is_what_the_schema_says(comparison: Comparison) -> None:
    """No field is missing, and none is there that the schema does not name."""
    schema = json.loads(FILE.read_text())
    Draft202012Validator.check_schema(schema)
    told = json.loads(json.dumps(comparison_json(comparison), allow_nan=False))
    assert told["schema"] == schema["properties"]["schema"]["const"] == SCHEMA
    Draft202012Validator(schema).validate(told)
