"""What a model call was asked to do, what went over the wire, and what the response says it did (D7)."""
