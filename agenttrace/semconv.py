"""Every attribute key that is read or written, once.

Three vocabularies, so that Phoenix and any OpenTelemetry backend understand a span:
- OpenInference 0.1.42: https://arize-ai.github.io/openinference/spec/semantic_conventions.html
- `gen_ai.*` of the OpenTelemetry conventions (0.66b2): https://opentelemetry.io/docs/specs/semconv/gen-ai/
- `agenttrace.*`: what neither has.
`gen_ai.latency.*` are the keys that vLLM and SGLang put on their own spans.
"""

from __future__ import annotations

from typing import Final

# OpenInference
SPAN_KIND: Final = "openinference.span.kind"
INPUT_VALUE: Final = "input.value"
INPUT_MIME: Final = "input.mime_type"
OUTPUT_VALUE: Final = "output.value"
OUTPUT_MIME: Final = "output.mime_type"
METADATA: Final = "metadata"
TAGS: Final = "tag.tags"
SESSION: Final = "session.id"
USER: Final = "user.id"
LLM_MODEL: Final = "llm.model_name"
LLM_PROVIDER: Final = "llm.provider"
LLM_PARAMETERS: Final = "llm.invocation_parameters"
PARAMETERS: Final = {
    "sampling.temperature": "temperature",
    "sampling.top_p": "top_p",
    "sampling.top_k": "top_k",
    "sampling.min_p": "min_p",
    "sampling.n": "n",
    "sampling.stop": "stop",
    "sampling.seed": "seed",
    "sampling.logit_bias": "logit_bias",
    "limits.max_output_tokens": "max_tokens",
    "reasoning.effort": "reasoning_effort",
    "reasoning.budget": "thinking_budget",
    "tools.choice": "tool_choice",
    "tools.parallel": "parallel_tool_calls",
    "output.format": "response_format",
    "service_tier": "service_tier",
    "delivery.streamed": "stream",
}
"""Dimensions to the names that most model APIs have for them, for `llm.invocation_parameters`."""
PROMPT_TEMPLATE: Final = "llm.prompt_template.template"
PROMPT_VERSION: Final = "llm.prompt_template.version"
PROMPT_VARIABLES: Final = "llm.prompt_template.variables"
LLM_INPUT_MESSAGES: Final = "llm.input_messages"
LLM_OUTPUT_MESSAGES: Final = "llm.output_messages"
LLM_FINISH_REASON: Final = "llm.finish_reason"
LLM_TOKENS: Final = {
    "input": "llm.token_count.prompt",
    "output": "llm.token_count.completion",
    "total": "llm.token_count.total",
    "cached": "llm.token_count.prompt_details.cache_read",
    "cache_written": "llm.token_count.prompt_details.cache_write",
    "reasoning": "llm.token_count.completion_details.reasoning",
}
LLM_COST_TOTAL: Final = "llm.cost.total"
LLM_COST_PROMPT: Final = "llm.cost.prompt"
LLM_COST_COMPLETION: Final = "llm.cost.completion"
LLM_COST_DETAILS: Final = {
    "cached": "llm.cost.prompt_details.cache_read",
    "cache_written": "llm.cost.prompt_details.cache_write",
    "reasoning": "llm.cost.completion_details.reasoning",
}
"""US dollars, as all of `llm.cost`."""
LLM_TOOLS: Final = "llm.tools"
TOOL_JSON_SCHEMA: Final = "tool.json_schema"
TOOL_NAME: Final = "tool.name"
TOOL_DESCRIPTION: Final = "tool.description"
TOOL_PARAMETERS: Final = "tool.parameters"
RETRIEVAL_DOCUMENTS: Final = "retrieval.documents"
DOCUMENT_CONTENT: Final = "document.content"
DOCUMENT_METADATA: Final = "document.metadata"
DOCUMENT_ID: Final = "document.id"
MESSAGE_ROLE: Final = "message.role"
MESSAGE_CONTENT: Final = "message.content"
MESSAGE_CONTENTS: Final = "message.contents"
CONTENT: Final = "message_content"
CONTENT_TYPE: Final = "message_content.type"
CONTENT_TEXT: Final = "message_content.text"
CONTENT_SIGNATURE: Final = "message_content.signature"
MESSAGE_NAME: Final = "message.name"
MESSAGE_TOOL_CALLS: Final = "message.tool_calls"
MESSAGE_TOOL_CALL_ID: Final = "message.tool_call_id"
TOOL_CALL_ID: Final = "tool_call.id"
TOOL_CALL_NAME: Final = "tool_call.function.name"
TOOL_CALL_ARGUMENTS: Final = "tool_call.function.arguments"

# OpenTelemetry gen_ai
OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
REQUEST: Final = {
    "sampling.temperature": "gen_ai.request.temperature",
    "sampling.top_p": "gen_ai.request.top_p",
    "sampling.top_k": "gen_ai.request.top_k",
    "sampling.seed": "gen_ai.request.seed",
    "sampling.n": "gen_ai.request.choice.count",
    "limits.max_output_tokens": "gen_ai.request.max_tokens",
    "delivery.streamed": "gen_ai.request.stream",
    "reasoning.effort": "gen_ai.request.reasoning.level",
}
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
USAGE: Final = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cached": "gen_ai.usage.cache_read.input_tokens",
    "cache_written": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning": "gen_ai.usage.reasoning.output_tokens",
}
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
ERROR_TYPE: Final = "error.type"
HTTP_STATUS: Final = "http.response.status_code"
SERVER_ADDRESS: Final = "server.address"
LATENCY: Final = {
    "queue": "gen_ai.latency.time_in_queue",
    "prefill": "gen_ai.latency.time_in_model_prefill",
    "decode": "gen_ai.latency.time_in_model_decode",
}

# agenttrace
RUN_ID: Final = "agenttrace.run.id"
STATE: Final = "agenttrace.state"
CALL_SITE: Final = "agenttrace.call_site"
ATTEMPT: Final = "agenttrace.attempt"
PHASE: Final = "agenttrace.phase"
"""Prefix: `agenttrace.phase.<name>.duration_s`, `.low_s`, `.high_s`, `.source`, `.method`."""
SETTING: Final = "agenttrace.settings"
"""Prefix: `agenttrace.settings.<dimension>`, with `.voice`."""
HTTP_ATTEMPT: Final = "agenttrace.attempt"
"""Prefix: `agenttrace.attempt.connect_s`, `.sent_s`, `.headers_s`, `.first_byte_s`, `.reads` of an HTTP request."""
NOTES: Final = "agenttrace.notes"
SERVER_REPORT: Final = "agenttrace.server_report"

# Read from the frameworks' metadata
LS_PROVIDER: Final = "ls_provider"
LS_MODEL: Final = "ls_model_name"
