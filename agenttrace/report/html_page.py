"""The page that every HTML report is written into: one file, which loads nothing and runs nothing.

There is no script in it, and its policy forbids all: what was recorded stays text. Styles are one sheet, allowed by its hash;
places and lengths are attributes of SVG, since a strict policy allows no style attributes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from html import escape

from agenttrace.report.escaping import visible, visible_lines

STYLE = """
:root { color-scheme: light dark; --queue: #b8860b; --prefill: #0e7c86; --decode: #2e7d32; --delivery: #8e3b8e;
  --other: #3367b0; --path: #c62828; --line: #8884; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.35rem; } h2 { font-size: 1.1rem; margin-top: 1.8rem; } h3 { font-size: 1rem; margin: 1rem 0 .3rem; }
.dim { opacity: .72; } .bad { color: var(--path); font-weight: 600; }
table { border-collapse: collapse; } th, td { padding: .15rem .8rem .15rem 0; text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; } thead th { border-bottom: 1px solid var(--line); }
ol.steps { list-style: none; padding: 0; } ol.steps > li { content-visibility: auto; contain-intrinsic-size: auto 1.7rem; }
.row { display: grid; grid-template-columns: minmax(12rem, 24rem) 6rem 1fr; gap: .8rem; align-items: center;
  border-bottom: 1px solid var(--line); } summary { cursor: pointer; } summary:focus-visible { outline: 3px solid #4c8bf5; }
li > details > summary .name::before { content: "▸ "; } li > details[open] > summary .name::before { content: "▾ "; }
.row .name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.d1 { padding-left: 1rem; } .d2 { padding-left: 2rem; } .d3 { padding-left: 3rem; } .d4 { padding-left: 4rem; }
.d5 { padding-left: 5rem; } .d6 { padding-left: 6rem; } .d7 { padding-left: 7rem; } .d8 { padding-left: 8rem; }
.inside { margin: .4rem 0 1rem 2rem; } details details summary { display: list-item; border: 0; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #8881; padding: .6rem; max-height: 30rem; overflow: auto; }
svg { display: block; } svg.bar { width: 100%; height: 1rem; } svg.plot { width: 100%; max-width: 40rem; height: auto; }
rect { fill: var(--other); } .queue { fill: var(--queue); } .prefill { fill: var(--prefill); } .decode { fill: var(--decode); }
.delivery { fill: var(--delivery); } .tool { fill: #b8860b; } .chain { fill: #8888; } .path { fill: var(--path); }
.failed { fill: var(--path); } .a { fill: #3367b0; fill-opacity: .55; } .b { fill: none; stroke: #c2185b; stroke-width: 2; }
text { font: 12px system-ui, sans-serif; fill: currentColor; } line { stroke: currentColor; stroke-opacity: .5; }
.pass { color: light-dark(#146c2e, #6fdd8b); } .regressed, .refused { color: light-dark(#a40e26, #ff8f9a); }
.inconclusive { color: light-dark(#7a4b00, #f5c26b); } .light { font-weight: 400; } .line { display: block; }
.wide { overflow-x: auto; } .pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 1rem; }
section { min-width: 0; } li, p, h1, summary, .line { overflow-wrap: anywhere; }
del { color: light-dark(#a40e26, #ff8f9a); } ins { color: light-dark(#146c2e, #6fdd8b); font-weight: 700; }
[tabindex]:focus-visible { outline: 3px solid #4c8bf5; } line.margin { stroke: light-dark(#a40e26, #ff8f9a); stroke-dasharray: 3 2; }
line.interval { stroke-width: 2; stroke-opacity: 1; } circle { fill: currentColor; }
rect.baseline { fill: light-dark(#5b6b7b, #aab8c6); } rect.candidate { fill: light-dark(#0b57d0, #8ab4f8); }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
"""

POLICY = "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'"


def html_page(title: str, body: Iterable[str], *, heading: str | None = None) -> str:
    """The whole file. `title` is escaped here; `body` is HTML already, and so is `heading`, where it is not the title."""
    policy = POLICY.format(hash=b64encode(sha256(STYLE.encode()).digest()).decode())
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{text(title)}</title>",
            f"<style>{STYLE}</style>",
            "</head>",
            "<body>",
            f"<main><h1>{text(title) if heading is None else heading}</h1>",
            *body,
            "</main>",
            "</body>",
            "</html>",
            "",
        )
    )


def text(value: str, *, limit: int | None = None) -> str:
    """A recorded text on one line, as HTML."""
    return escape(visible(value, limit=limit))


def lines(value: str) -> str:
    """A recorded text of several lines, as HTML."""
    return escape(visible_lines(value))


def listed(items: Iterable[str]) -> str:
    """A list of what is HTML already."""
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def scrolled(html: str, title_id: str) -> str:
    """What may be wider than the page, reached by the keyboard. `title_id`: of the heading that names it."""
    return f'<div class="wide" tabindex="0" role="region" aria-labelledby="{title_id}">{html}</div>'


def html_table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str) -> str:
    """Cells are HTML already; all columns but the first hold numbers. The caption is for who cannot see the page."""
    head = "".join(f'<th scope="col"{_number(place)}>{title}</th>' for place, title in enumerate(titles))
    body = "".join(f"<tr>{_row(row)}</tr>" for row in rows)
    hidden = f'<caption class="hidden">{escape(caption)}</caption>'
    return f"<table>{hidden}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(row: Sequence[str]) -> str:
    first, *others = row
    return f'<th scope="row">{first}</th>' + "".join(f'<td class="n">{cell}</td>' for cell in others)


def _number(place: int) -> str:
    return ' class="n"' if place else ""
