"""The options that several commands share."""

from __future__ import annotations

import click

store_option = click.option(
    "--store", metavar="PATH", help="The store's folder. [default: $AGENTTRACE_STORE, else ./.agenttrace]"
)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")
