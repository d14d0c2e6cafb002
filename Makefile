# Each target is one line of shell or one script; `make` alone lists them.

VENV   := .venv
BIN    := $(VENV)/bin
# Compiled test files are kept, whatever the shell says: to rewrite all asserts takes seconds.
KEEP   := env -u PYTHONDONTWRITEBYTECODE
PYTEST := $(KEEP) $(BIN)/python -m pytest
UNIT   := -m "not system and not slow and not timing"
# Twice the cores of the smallest machine that decides: half of what a test takes is waiting.
SPREAD := -n 4 --dist loadgroup
WHOLE  := -m "(system or slow) and not timing"
TIMING := -m timing
# Where ARGS name tests, a part may have none of them.
OR_NONE := || [ $$? -eq 5 ]

.DEFAULT_GOAL := help
.PHONY: help setup run test check lint unit test-versions crash-matrix soak bench simulate image image-check fresh-check lock format clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Create .venv with everything in it, locked (PYTHON=... chooses the interpreter)
	@python=$$(scripts/python.sh) && "$$python" scripts/make_venv.py --venv $(VENV)

run: setup ## Show a whole worker at work, without a key or a network
	@$(BIN)/loopworker demo

test: setup ## All tests (STRICT=1: a missing server is a failure, not a skip)
	@scripts/test-needs.sh
	@$(PYTEST) $(UNIT) $(SPREAD) $(ARGS) $(OR_NONE)
	@$(PYTEST) $(WHOLE) -n 3 --dist loadfile --no-loadscope-reorder $(ARGS) $(OR_NONE)
	@$(PYTEST) $(TIMING) $(ARGS) $(OR_NONE)

check: lint unit ## Before each commit: lint and the unit tests, in under a minute

lint: setup ## Ruff, the formatter and mypy
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy

unit: setup ## The unit tests alone
	@$(PYTEST) $(UNIT) -q $(SPREAD) $(ARGS)

test-versions: ## The unit tests on each other Python >= 3.11 here, asyncio in debug mode
	@$(KEEP) scripts/test-versions.sh $(UNIT) -q $(SPREAD) -o asyncio_debug=true $(ARGS)

format: setup ## Let the formatter have its way
	@$(BIN)/ruff check --fix --quiet; $(BIN)/ruff format --quiet

crash-matrix: setup ## Every fault on every engine, as a table (ARGS="--only poison --engines redis")
	@$(BIN)/python -m tests.matrix $(ARGS)

soak: setup ## An hour of work and random kills: nothing lost, made twice or grown (ARGS="--minutes 5")
	@$(BIN)/python -m tests.soak $(ARGS)

bench: setup ## Speed and memory beside a lean loop, on this machine
	@$(BIN)/python -m tests.bench $(ARGS)

simulate: setup ## Whole worlds of failing workers, checked (SEEDS=5000 of them; SEED=17 replays one)
	@$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),200)) $(ARGS)

image: ## Build the container image (needs an engine: docker, podman or buildah)
	@deploy/image/build.sh

image-check: setup ## Carry out the Dockerfile's own steps without an engine, and use the result
	@$(BIN)/python -m deploy.image.check $(ARGS)

fresh-check: setup ## Follow the README on a machine that has Python, pip and make only
	@$(BIN)/python -m deploy.image.fresh $(ARGS)

lock: ## Resolve the dependencies anew and write the lock files
	@scripts/lock.sh

clean: ## Remove what the other targets made
	@rm -rf .venv .venv-* .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
