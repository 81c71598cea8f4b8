"""One reader for each server's own report. `registry` knows them all; nothing else needs to."""
