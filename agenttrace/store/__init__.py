"""Where runs are kept on one machine: a folder with a DuckDB file and the journals that feed it."""
