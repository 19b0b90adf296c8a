# What is missing is brought by the targets themselves: `make demo` and `make test` need nothing before them but Go, and
# npm for the embedded engine; the tests against Apache Kafka need a JDK and Maven.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
ARGS    ?=
SEED    ?=
BROKER  ?= embedded
PYTHON  ?= python3
CELERY  ?=

.PHONY: demo test chaos truth bench-ingest bench-rules bench-celery scaling build lint libchdb testbroker celery clean

demo: libchdb build ## run everything on this machine, with a shop that gets into trouble; ARGS="--listen ..." is passed on
	@bin/auditor demo $(ARGS)

test: libchdb testbroker celery ## run every test and say what was skipped, and why; AUDITOR_REQUIRE=all makes each skip a failure
	@$(GO) run ./internal/testrun -count=1 -timeout=20m ./...

bench-ingest: libchdb testbroker ## measure ingest against ClickHouse's own Kafka table and what the machine can do; ARGS="--help" tells what can be set
	@$(GO) build -o bin/bench ./bench
	@bin/bench $(ARGS)

bench-rules: libchdb ## measure what a tick of the rules costs with 10 M and with 100 M events stored (20 minutes, 10 GB of disk); ARGS="--help" tells what can be set
	@$(GO) build -o bin/bench ./bench
	@bin/bench rules $(ARGS)

bench-celery: celery ## measure what auditor-celery adds to a task, and how much it sends: ARGS="--kafka 127.0.0.1:9092"
	@emitters/celery/venv/bin/python emitters/celery/bench/bench.py $(ARGS)

scaling: ## reckon what a rate of events takes: ARGS="--rates=25000 --retention=30"; ARGS=--write puts the tables into docs/scaling.md
	@$(GO) run ./capacity $(ARGS)

chaos: libchdb build ## kill and break the auditor while it works, then count: SEED=7 or SEED=1..20, BROKER=kafka for Apache Kafka
	@[ "$(BROKER)" != kafka ] || $(MAKE) --no-print-directory testbroker
	@$(GO) build -o bin/chaos ./chaos
	@bin/chaos -seeds "$(SEED)" -broker "$(BROKER)" $(ARGS)

truth: libchdb build ## simulate a million tasks, have them judged, and count what was found beside the truth: SEED=7, ARGS="-tasks 100000"
	@$(GO) build -o bin/truth ./truth
	@bin/truth $(if $(SEED),-seed $(SEED)) $(ARGS)

build: ## build bin/auditor
	@[ -e bin/auditor ] || echo "building bin/auditor (a minute or two the first time)"
	@$(GO) build -trimpath -buildvcs=false -ldflags "-X main.version=$(VERSION)" -o bin/auditor ./cmd/auditor

lint: ## check the form of the code
	@unformatted=$$(gofmt -l bench capacity chaos cmd embedded emit emitters event examples ingest internal queries rules truth web *.go); \
	if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	@$(GO) vet ./...

# The engine's library: about 570 MB, once. AUDITOR_LIBCHDB names a copy that is there already.
libchdb:
	@if [ -n "$$AUDITOR_LIBCHDB" ] || [ -e embedded/clickhouse/node_modules/.package-lock.json ]; then :; \
	elif command -v npm >/dev/null; then \
		echo "bringing libchdb, the embedded ClickHouse engine (once)"; \
		npm ci --prefix embedded/clickhouse --no-audit --no-fund --loglevel=error; \
	else \
		echo "npm is missing, which brings libchdb, the embedded ClickHouse engine; or name a copy in AUDITOR_LIBCHDB" >&2; \
	fi

# Apache Kafka, which the tests run beside the embedded broker: 43 MB, once. AUDITOR_KAFKA_JARS names a copy that is there
# already. And a producer of another make, librdkafka for Python: 5 MB.
testbroker:
	@cd embedded/kafka/testbroker; \
	if [ -n "$$AUDITOR_KAFKA_JARS" ] || (cd jars && sha256sum --quiet --check ../jars.sha256) >/dev/null 2>&1; then :; \
	elif command -v mvn >/dev/null; then \
		echo "bringing Apache Kafka for the tests (once)"; \
		rm -rf jars && mvn -B -q -C -Dstyle.color=never dependency:copy-dependencies && cd jars && sha256sum --quiet --check ../jars.sha256; \
	else \
		echo "Maven is missing, which brings Apache Kafka for the tests; or name a copy in AUDITOR_KAFKA_JARS" >&2; \
	fi
	@cd embedded/kafka/testbroker; \
	if cmp -s requirements.txt venv/complete; then :; \
	elif python3 -c "import ensurepip, venv" 2>/dev/null; then \
		echo "bringing confluent-kafka for the tests (once)"; \
		rm -rf venv && python3 -m venv venv && \
		venv/bin/pip -q --disable-pip-version-check install --require-hashes --only-binary :all: -r requirements.txt && cp requirements.txt venv/complete || \
		echo "confluent-kafka could not be brought: the tests that need it are skipped" >&2; \
	else \
		echo "Python's venv is missing, which brings confluent-kafka for the tests" >&2; \
	fi

# The Python package auditor-celery, with what its tests need. CELERY and PYTHON choose other versions.
celery:
	@cd emitters/celery; want="$$(cat pyproject.toml tests/requirements.txt; echo $(PYTHON) $(CELERY))"; \
	if [ "$$want" = "$$(cat venv/complete 2>/dev/null)" ]; then :; \
	elif $(PYTHON) -c "import ensurepip, venv" 2>/dev/null; then \
		echo "bringing Celery for the tests of auditor-celery (once)"; \
		rm -rf venv && $(PYTHON) -m venv venv && \
		venv/bin/pip -q --disable-pip-version-check install --only-binary :all: -r tests/requirements.txt && \
		$(if $(CELERY),venv/bin/pip -q --disable-pip-version-check install "celery==$(CELERY)" &&) \
		venv/bin/pip -q --disable-pip-version-check install --no-deps -e . && echo "$$want" > venv/complete || \
		echo "Celery could not be brought: the tests of auditor-celery are skipped" >&2; \
	else \
		echo "Python's venv is missing, which brings Celery for the tests of auditor-celery" >&2; \
	fi

clean: ## remove what was built; data stays
	@rm -rf bin artifacts
