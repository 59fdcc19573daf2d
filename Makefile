# Everything runs in a ROCm root. It is made on first use and kept in the cache: docs/decisions/0001-where-things-run.md
# ARGS='…' is passed on unchanged, with every $: make test ARGS='-k store -x', make shell ARGS='echo $HOME'
ROCM ?= 6.4
ROOT := python3 -m kerncap_stages.rocm_root
IN_ROOT = $(ROOT) run --rocm $(ROCM) -- python3 tools/workbench.py
WORDS = $(value ARGS)
# ARGS as one line for the root's bash, quoted for the shell that starts that bash.
LINE = '$(subst ','\'',$(value ARGS))'
# The Python of a study or of the sweep, with ROCm $(1) and the layer $(2). The help needs no such layer, a study's no root.
ROOT_OF = $(ROOT) run --rocm $(1) --with $(2) -- python3 tools/workbench.py shell python
IN_STUDY_ROOT = $(if $(filter --help -h,$(WORDS)),@python3,$(ROOT_OF))
.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-newer test-fleet sanitize sweep study study-ck study-frameworks bench check format golden wheel schemas shell

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## show the main job on a real HIP program: take a kernel out, edit it, judge it
	$(IN_ROOT) demo

test: ## build, then run all tests except slow ones (minutes; CI runs this)
	$(IN_ROOT) test $(WORDS)

test-all: ## run all tests, also the slow ones, test-newer and test-fleet
	$(IN_ROOT) test-all $(WORDS)
	$(if $(WORDS),,$(MAKE) test-newer test-fleet)

test-newer: ## test profile, capture and replay with ROCm 7.2; `make test ROCM=7.2` runs all tests with it
	$(ROOT) run --rocm 7.2 -- python3 tools/workbench.py shell pytest tests/conformance tests/integration/hsa $(WORDS)

test-fleet: ## test kc-evaluate on clusters of this machine, by Ray and by Slurm (a root and an environment of its own)
	$(ROOT) run --rocm 6.4 --with slurm -- python3 tools/workbench.py test-fleet $(WORDS)

sanitize: ## test native code under sanitizers; fuzz parts of it for five minutes each, or for ARGS=SECONDS
	$(IN_ROOT) sanitize $(WORDS)

sweep: ## run a random sample of the tests of ROCm's libraries for an hour (20 GB of disk); ARGS=--help
	$(if $(filter --help -h,$(WORDS)),$(IN_ROOT) shell python,$(call ROOT_OF,6.4,library-tests)) tools/sweep.py $(WORDS)

study: ## build llama.cpp, take kernels out of it, measure the edit loop (half an hour, 7 GB of disk); ARGS=--help
	$(call IN_STUDY_ROOT,6.4,blas) docs/case-studies/llama/study.py $(WORDS)

study-ck: ## the same with Composable Kernel (GEMM, reduction, attention) and hipCUB's sort (half an hour); ARGS=--help
	$(call IN_STUDY_ROOT,6.4,hipcub) docs/case-studies/composable-kernel/study.py $(WORDS)

study-frameworks: ## take kernels out of CuPy's and JAX's programs on ROCm 7.2, judge edits (half an hour, 8 GB of disk)
	$(call IN_STUDY_ROOT,7.2,frameworks) docs/case-studies/frameworks/study.py $(WORDS)

bench: ## measure speeds and sizes, and compare them with their bars; needs an idle machine; ARGS=--help
	$(IN_ROOT) bench $(WORDS)

check: ## run ruff and mypy
	$(IN_ROOT) check

format: ## rewrite sources in the project's format
	$(IN_ROOT) format

golden: ## rewrite the golden files with the code's current output; review the diff
	$(IN_ROOT) golden $(WORDS)

wheel: ## build wheels for other machines, and a source archive of the last commit, in dist/
	rocm=$$($(ROOT) make) && $(ROOT) run --rocm none -- python3 tools/wheel.py "$$rocm"

schemas: ## rewrite the JSON Schemas of the manifests; review the diff
	$(IN_ROOT) schemas

shell: ## open a shell in the root, with this checkout installed, on the software GPU; or run ARGS='CMD …'
	$(IN_ROOT) shell $(if $(WORDS),bash -c $(LINE))
