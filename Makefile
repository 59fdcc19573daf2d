# Everything runs in a ROCm root made on the first use and kept in the cache: docs/decisions/0001-where-things-run.md.
# ARGS='…' is passed on as it was typed, $ too: make test ARGS='-k store -x', make shell ARGS='echo $HOME'
ROCM ?= 6.4
ROOT := python3 -m kerncap_stages.rocm_root
IN_ROOT = $(ROOT) run --rocm $(ROCM) -- python3 tools/workbench.py
WORDS = $(value ARGS)
# One line for the root's bash, in the quotes of the shell that starts it.
LINE = '$(subst ','\'',$(value ARGS))'
.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-newer sanitize bench check format golden wheel schemas shell

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## the main job on a real HIP program: take a kernel out, edit it, judge it
	$(IN_ROOT) demo

test: ## build, then all tests but the slow ones (minutes; what CI runs)
	$(IN_ROOT) test $(WORDS)

test-all: ## the full sweep; test-newer is part of it
	$(IN_ROOT) test-all $(WORDS)
	$(if $(WORDS),,$(MAKE) test-newer)

test-newer: ## profiles, captures and replays on ROCm 7.2; `make test ROCM=7.2` runs all tests there
	$(ROOT) run --rocm 7.2 -- python3 tools/workbench.py shell pytest tests/conformance tests/integration/hsa $(WORDS)

sanitize: ## native/core and the software GPU's device under sanitizers; what they read, fuzzed for five minutes each, or ARGS=SECONDS
	$(IN_ROOT) sanitize $(WORDS)

bench: ## speeds and sizes against their bars; wants an idle machine; ARGS=--help
	$(IN_ROOT) bench $(WORDS)

check: ## ruff and mypy
	$(IN_ROOT) check

format: ## rewrite sources in the project's format
	$(IN_ROOT) format

golden: ## rewrite golden files from what the code does now; review the diff
	$(IN_ROOT) golden $(WORDS)

wheel: ## a wheel for other machines, and the sources of the last commit, in dist/
	rocm=$$($(ROOT) make) && $(ROOT) run --rocm none -- python3 tools/wheel.py "$$rocm"

schemas: ## write the JSON Schemas of the manifests again; review the diff
	$(IN_ROOT) schemas

shell: ## a shell in the root, with this checkout built and installed, on the software GPU; or ARGS='CMD …'
	$(IN_ROOT) shell $(if $(WORDS),bash -c $(LINE))
