"""A suite: orders in plain words become JSON, which llama.cpp keeps to a schema. Run it:

agenttrace eval run evals/order_extraction.py
"""

from __future__ import annotations

from pathlib import Path

from agenttrace import Case, Score, Suite
from agenttrace.evaluation.evaluators import JsonFields, JsonSchema, json_of
from evals.local_chat import SLOTS, ask, local_model

HERE = Path(__file__).parent

SCHEMA = {
    "type": "object",
    "properties": {
        "item": {"type": "string"},
        "quantity": {"type": "integer"},
        "unit": {"type": "string"},
        "city": {"type": "string"},
    },
    "required": ["item", "quantity", "unit", "city"],
    "additionalProperties": False,
}
RESPONSE_FORMAT = {"type": "json_schema", "json_schema": {"name": "order", "schema": SCHEMA, "strict": True}}

ORDER_TOKENS = 60


async def extract(text: str) -> str:
    """The order as the model wrote it down."""
    return await ask("order_fields.v1", max_tokens=ORDER_TOKENS, response_format=RESPONSE_FORMAT).ainvoke(
        {"text": text}
    )


def all_right(case: Case, output: str) -> Score:
    """Whether every field is as expected."""
    wrong = [name for name, value in case.expected.items() if json_of(output).get(name) != value]
    return Score(value=not wrong, reason=f"wrong: {', '.join(wrong)}, in {output}" if wrong else None)


suite = Suite(
    name="order-extraction",
    cases=HERE / "cases" / "order_extraction.jsonl",
    task=extract,
    evaluators=[all_right, JsonSchema(SCHEMA), JsonFields()],
    concurrency=SLOTS,
    timeout_s=60,
    around=local_model,
)
