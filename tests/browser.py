"""A real browser for tests: Debian's Chromium without a screen, driven by Playwright."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conftest import require

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PICTURES = Path(__file__).parents[1] / "docs" / "images"

QUIET = (
    "--no-sandbox",  # CI is root in a container, where Chromium's own sandbox cannot be
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)

SIZE = (1500, 900)
"""Narrower, and Phoenix leaves out of its tree what each step took."""


@contextmanager
def open_page() -> Iterator[Page]:
    """An empty page of a new profile. Leaves the test out where there is no Chromium."""
    chromium = shutil.which("chromium")
    require(importlib.util.find_spec("playwright") is not None, "the Python package playwright")
    require(chromium is not None, "Chromium (on Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(QUIET))
        width, height = SIZE
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        try:
            yield page
        finally:
            browser.close()


def take_picture(part: Locator, name: str) -> None:
    """For the docs, when asked: they change with every run, and nobody wants that in every diff."""
    if os.environ.get("AGENTTRACE_PICTURES"):
        PICTURES.mkdir(exist_ok=True)
        part.page.mouse.move(0, 0)
        part.screenshot(path=PICTURES / name)
