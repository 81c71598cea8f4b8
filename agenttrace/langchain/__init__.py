"""The only place that knows LangChain and LangGraph: callbacks in, framework-free steps out."""
