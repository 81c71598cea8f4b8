"""Settings that only the model object has: as `watch` read them, or as its `repr` shows them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from agenttrace.steps import JSON

OBJECT_KEYS: Final = tuple(
    """
    model model_name model_id temperature top_p top_k min_p n stop stop_sequences seed random_seed num_ctx num_predict max_tokens max_completion_tokens
    max_output_tokens max_new_tokens presence_penalty frequency_penalty repeat_penalty repetition_penalty logit_bias reasoning
    reasoning_effort thinking service_tier format do_sample num_beams pipeline_kwargs
    """.split()
)
"""Fields of model objects that are settings."""

LIMITS: Final = ("max_retries", "timeout", "request_timeout", "default_request_timeout")
"""Fields that decide when a call gives up."""

FIELD = re.compile(
    r"(?:^|[(,]\s?)("
    + "|".join((*OBJECT_KEYS, *LIMITS))
    + r")=(-?\d+(?:\.\d+)?(?:e-?\d+)?|'[^'\\]*'|True|False|None|\[[^\[\]]*\])(?=[,)])"
)


@lru_cache(maxsize=64)
def settings_of_repr(text: str) -> Mapping[str, JSON]:
    """The plain values among a model's fields in its `repr`: pydantic leaves out what has its default."""
    found: dict[str, JSON] = {}
    for name, literal in FIELD.findall(text):
        try:
            found.setdefault(name, ast.literal_eval(literal))
        except (ValueError, SyntaxError):
            continue
    return found
