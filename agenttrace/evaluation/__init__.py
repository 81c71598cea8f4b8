"""Suites of cases, run over a task, judged, and recorded: what `compare` reads."""
