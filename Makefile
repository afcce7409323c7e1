# The only commands anybody needs. Each one first makes .venv hold what it needs (scripts/venv), which
# takes no time when it already does. Give more arguments with ARGS="…", another interpreter with
# PYTHON=…, another place for the environment with VENV=….

VENV ?= .venv
bin := $(VENV)/bin
export VENV PYTHON
# Tests start hundreds of processes, which write no bytecode (tests/conftest.py), so what they import is compiled before.
pytest := $(bin)/python -m compileall -q src tests && $(bin)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help run test coverage quick check spec live chaos soak opinion bench lock clean
# Two verbs at once would install into one environment at the same time.
.NOTPARALLEL:

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' $(firstword $(MAKEFILE_LIST))

run: ## start the gateway                (ARGS="…" goes to finclaw serve)
	@scripts/venv run
	@exec $(bin)/finclaw serve $(ARGS)

# Four for two cores: half of the time is spent waiting for processes that start, hang or are killed.
test: ## run every test, chaos in short   (ARGS="tests/kernel -k fold" for some)
	@scripts/venv test
	@$(pytest) -n 4 --dist worksteal $(ARGS)

# Not part of .ci/run: the tracer takes more than twice the time of the tests themselves.
coverage: ## every test, and how much of the code they run; fails under 80 %
	@scripts/venv test
	@$(pytest) -n 4 --dist worksteal --cov --cov-report=term:skip-covered --cov-fail-under=80 $(ARGS)

# The packages whose tests start few processes: seconds, not minutes.
unit := $(addprefix tests/,kernel routing channels delivery pipeline conformance finance tools house)
quick: ## the unit tests, in a minute     (make test runs everything)
	@scripts/venv test
	@$(pytest) -n 2 -q $(unit) --ignore=tests/redaction/test_time.py --ignore=tests/tools/test_schema_limits.py $(ARGS)

check: ## style, types, imports, spec
	@scripts/venv check
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/basedpyright --pythonpath $(bin)/python
	$(bin)/lint-imports --no-logo
	@$(MAKE) --no-print-directory spec

spec: ## which requirements have a test that proves them
	@scripts/venv run
	@$(bin)/python scripts/spec.py

live: ## ask every live source, write docs/live-report.md (needs a network; ARGS="--state DIR" for your keys)
	@scripts/venv run
	@$(bin)/python scripts/live_report.py $(ARGS)

# -s: progress is seen while it goes on; the table of kills and losses comes at the end.
chaos: ## the chaos tests, in full         (takes long)
	@scripts/venv test
	@$(pytest) -s tests/chaos -m chaos --chaos=full --timeout=1800 $(ARGS)

soak: ## chaos at length               (1,000 random kills, 20 at each crash point)
	@scripts/venv test
	@$(pytest) -s tests -m "chaos or soak" --chaos=soak --timeout=14400 $(ARGS)

# Not part of `make test`: that needs python3 and nothing else, and a test that skips itself where node is missing
# would look like a pass. Installed by the hash in its lock file; the package has no dependencies of its own.
opinion: ## a mock model server by others, and a real PostgreSQL (needs node 20.15 or newer, and npm)
	@scripts/venv opinion
	@command -v node >/dev/null && command -v npm >/dev/null || \
	    { echo "make opinion needs node 20.15 or newer, and npm. On Debian 13:  apt-get install -y nodejs npm" >&2; exit 1; }
	@mkdir -p build/aimock && cp tests/second_opinion/package*.json build/aimock/
	@npm ci --prefix build/aimock --ignore-scripts --no-audit --no-fund --loglevel=error
	@$(pytest) tests/second_opinion -m "aimock or postgres" $(ARGS)

bench: ## speed beside SDKs and peers      (BENCH=quick: about eight minutes)
	@scripts/venv run
	@$(bin)/python -m compileall -q src benchmarks  # as the peers' packages are, which pip installs
	@$(bin)/python -m benchmarks.run $(BENCH) $(ARGS)
	@$(bin)/python -m benchmarks.page

lock: ## write requirements/*.lock again (ARGS=--upgrade for the newest versions)
	@scripts/lock $(ARGS)

clean: ## remove .venv, caches and build output
	@if [ -f "$(VENV)/pyvenv.cfg" ]; then rm -rf "$(VENV)"; fi
	@rm -rf build dist benchmarks/out .coverage .coverage.* htmlcov .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
