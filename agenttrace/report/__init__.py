"""Drawings of results; computes nothing. Import from the module that defines a name."""
