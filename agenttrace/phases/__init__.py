"""Marks and server reports to phases with bounds and provenance (D6). Pure functions: no I/O, no framework, no clock."""
