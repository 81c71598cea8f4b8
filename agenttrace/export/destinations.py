"""Where spans can be sent, by name: any OTLP endpoint, Phoenix, Arize AX; each with what it wants to know.

What is not given comes from the environment variables that the destination's own documentation names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote

from agenttrace.errors import UsageError

Kind: TypeAlias = Literal["otlp", "phoenix", "arize-ax"]
KINDS: Final[tuple[Kind, ...]] = ("otlp", "phoenix", "arize-ax")

OTLP_ENDPOINT: Final = "AGENTTRACE_OTLP_ENDPOINT"
OTLP_HEADERS: Final = "AGENTTRACE_OTLP_HEADERS"

PHOENIX_ENDPOINT: Final = "PHOENIX_COLLECTOR_ENDPOINT"
LOCAL_PHOENIX: Final = "http://127.0.0.1:6006"

ARIZE_ENDPOINT: Final = "https://otlp.arize.com/v1/traces"
"""https://arize.com/docs/ax/observe/tracing/configure/configure-otel-tracer; accounts in the EU have another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """One place to send spans to."""

    kind: Kind
    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with each request. Holds keys, so it is never shown."""
    project: str | None = None
    """Where the spans are filed; None files each run under its own name."""

    @property
    def name(self) -> str:
        """What confirmations are kept under: another project, or another address, is another destination."""
        address = self.endpoint.rpartition("@")[2].rstrip("/")
        return f"{self.kind} {address} {self.project or ''}".rstrip()


def destination(
    kind: Kind,
    *,
    endpoint: str | None = None,
    headers: Iterable[str] = (),
    project: str | None = None,
) -> Destination:
    """Find a destination's address, keys and project.

    Args:
        kind: which.
        endpoint: its address; from the environment where None.
        headers: `name=value` each; they come before the environment's.
        project: where the spans are filed.

    Raises:
        UsageError: the address or a key is missing, or a header is no `name=value`.
    """
    given = _headers(headers, "A header")
    found: str | None
    if kind == "phoenix":
        found = endpoint or os.environ.get(PHOENIX_ENDPOINT) or LOCAL_PHOENIX
        key = os.environ.get("PHOENIX_API_KEY")
        own = {"authorization": f"Bearer {key}"} if key else {}
        own |= _from_environment("PHOENIX_CLIENT_HEADERS")
        project = project or os.environ.get("PHOENIX_PROJECT_NAME")
    elif kind == "arize-ax":
        found = endpoint or os.environ.get("ARIZE_COLLECTOR_ENDPOINT") or ARIZE_ENDPOINT
        own = {"space_id": os.environ.get("ARIZE_SPACE_ID", ""), "api_key": os.environ.get("ARIZE_API_KEY", "")}
        project = project or os.environ.get("ARIZE_PROJECT_NAME")
    else:
        found = endpoint or os.environ.get(OTLP_ENDPOINT) or _otel_endpoint()
        own = _from_environment("OTEL_EXPORTER_OTLP_HEADERS") | _from_environment(OTLP_HEADERS)
    all_headers = own | given
    if not found:
        raise UsageError(f"No endpoint was named. Give one: --endpoint http://127.0.0.1:4318, or set ${OTLP_ENDPOINT}.")
    if "://" not in found and ":" not in found:
        raise UsageError(
            f"'{found}' is no destination. Name one of {', '.join(KINDS)}, or an address like http://127.0.0.1:4318."
        )
    missing = [name for name, value in all_headers.items() if not value]
    if missing:
        variables = " and ".join(f"$ARIZE_{name.upper()}" for name in missing)
        raise UsageError(
            f"Arize AX asks for its {' and '.join(missing)}, and there is none. "
            f"Set {variables}, or give --header {missing[0]}=…; the space's settings page shows both."
        )
    return Destination(kind=kind, endpoint=found, headers=all_headers, project=project)


def _otel_endpoint() -> str | None:
    return os.environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")


def _from_environment(variable: str) -> dict[str, str]:
    """`name=value,name=value`, percent-encoded, as OpenTelemetry writes headers in a variable."""
    pairs = (pair for pair in os.environ.get(variable, "").split(",") if pair.strip())
    return {name: unquote(value) for name, value in _headers(pairs, f"${variable}").items()}


def _headers(pairs: Iterable[str], where: str) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, is_pair, value = pair.partition("=")
        if not is_pair or not name.strip():
            # What was given is not repeated: it may be a key.
            raise UsageError(f"{where} has no name. Write it as name=value.")
        found[name.strip().lower()] = value.strip()
    return found
