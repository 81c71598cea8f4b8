"""The only place that observes HTTP clients: when a model call's requests left and came back, and what servers said."""
