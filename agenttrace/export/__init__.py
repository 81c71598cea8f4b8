"""Runs and spans in the formats of others. Import from the module that defines a name."""
