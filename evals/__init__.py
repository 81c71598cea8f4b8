"""The project's own suites: cases and the agents they try. Nothing here is library code."""
