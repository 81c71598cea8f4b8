"""Steps to what leaves: the record that is kept, the OpenTelemetry span that is sent, and what is scrubbed from both."""
