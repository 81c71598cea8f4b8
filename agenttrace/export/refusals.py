"""Errors that every endpoint over HTTP may answer with, each told once."""

from __future__ import annotations

import ssl

from agenttrace.errors import EndpointRefused


def unsafe(url: str, error: ssl.SSLError) -> EndpointRefused:
    """No TLS connection: the certificate is not trusted, or what listens speaks no TLS."""
    return EndpointRefused(
        f"No safe connection to {url} could be made: {error.reason or error}. "
        "Check that it speaks https, and that its certificate is one this machine trusts ($SSL_CERT_FILE)."
    )


def sent_elsewhere(url: str, location: str | None) -> EndpointRefused:
    """A redirect. It is not followed: keys would go with it."""
    return EndpointRefused(f"{url} sends elsewhere: {location or 'it does not say where'}. Name that address instead.")
