# Each target sets up what it needs: a virtual environment of its own, pinned dependencies, then the work.
PYTHON ?= python3
MARK = installed
PIP_INSTALL = install --quiet --disable-pip-version-check

.PHONY: demo test test-light lint docs bench bench-all headlines browser environments clean

demo: .venv/$(MARK)
	.venv/bin/python -m benchmarks.demo

test: .venv-comet/$(MARK) browser
	.venv-comet/bin/python -m pytest -n 2 --dist worksteal

test-light: .venv-light/$(MARK) browser
	.venv-light/bin/python -m pytest -n 2 --dist worksteal -m "not one_world"

lint: .venv-light/$(MARK) docs
	.venv-light/bin/ruff format --check .
	.venv-light/bin/ruff check .
	.venv-light/bin/mypy
	.venv-light/bin/hadolint Dockerfile Dockerfile.cuda

# The documentation site, into site/; a dead link, a dead anchor or a page that no menu has is an error. No network is needed.
docs: .venv-light/$(MARK)
	NO_MKDOCS_2_WARNING=1 .venv-light/bin/mkdocs build --strict --quiet

# The quick set; its results go to benchmarks/RESULTS.md.
bench: .venv-light/$(MARK)
	.venv-light/bin/pip $(PIP_INSTALL) -c constraints/light.txt -e ".[bench]"
	.venv-light/bin/python -m benchmarks.results

# What README and pages quote, measured again and kept in benchmarks/results (hours); then
# `python -m benchmarks.transcripts --write` brings the values into the pages.
headlines: .venv-light/$(MARK)
	.venv-light/bin/pip $(PIP_INSTALL) -c constraints/light.txt -e ".[bench]"
	.venv-light/bin/python -m benchmarks.bundled_choice --part test --keep
	.venv-light/bin/python -m benchmarks.parity_pear_mt --keep
	.venv-light/bin/python -m benchmarks.evaluate_wmt23 --ter --keep
	.venv-light/bin/python -m benchmarks.speed_pear --repeats 1 --keep
	.venv-light/bin/python -m benchmarks.limit --keep
	.venv-light/bin/python -m benchmarks.speed_strategies --only pear-mt --lists 30 --keep
	.venv-light/bin/python -m benchmarks.speed_utilities --lists 1 --repeats 2 --keep
	.venv-light/bin/python -m benchmarks.cold_start --repeats 2 --quality 3 --keep
	.venv-light/bin/python -m benchmarks.speed_metaeval --keep
	.venv-light/bin/python -m benchmarks.matrices
	.venv-light/bin/python -m benchmarks.strategies --sets test --seeds 1 --methods "race, tolerance" halving prune half balanced "random anchors" "low rank" pruning
	.venv-light/bin/python -m benchmarks.strategies --sets test wmt23 --methods "race, tolerance 0.01" --seeds 1 --keep
	.venv-light/bin/python -m benchmarks.strategies_quality --seeds 1 --keep
	.venv-light/bin/python -m benchmarks.calibration --lists 150 --keep
	.venv-light/bin/python -m benchmarks.large_lists --keep

# All benchmarks at full size, in the order of benchmarks/__init__.py: a night. It ends with the first that fails.
bench-all: .venv-light/$(MARK)
	.venv-light/bin/pip $(PIP_INSTALL) -c constraints/light.txt -e ".[bench]"
	.venv-light/bin/python -m benchmarks.parity_pear_mt
	.venv-light/bin/python -m benchmarks.compat_pear_mt
	.venv-light/bin/python -m benchmarks.released_bleurt
	.venv-light/bin/python -m benchmarks.evaluate_wmt23 --ter
	.venv-light/bin/python -m benchmarks.guards
	.venv-light/bin/python -m benchmarks.speed_pear
	.venv-light/bin/python -m benchmarks.limit
	.venv-light/bin/python -m benchmarks.speed_strategies
	.venv-light/bin/python -m benchmarks.large_lists
	.venv-light/bin/python -m benchmarks.speed_utilities
	.venv-light/bin/python -m benchmarks.recipe_cost
	.venv-light/bin/python -m benchmarks.batches
	.venv-light/bin/python -m benchmarks.cold_start
	.venv-light/bin/python -m benchmarks.speed_metaeval
	.venv-light/bin/python -m benchmarks.stream_latency
	.venv-light/bin/python -m benchmarks.stream_memory
	.venv-light/bin/python -m benchmarks.cluster
	.venv-light/bin/python -m benchmarks.load_serve
	.venv-light/bin/python -m benchmarks.matrices
	.venv-light/bin/python -m benchmarks.strategies
	.venv-light/bin/python -m benchmarks.calibration
	.venv-light/bin/python -m benchmarks.strategies_quality
	.venv-light/bin/python -m benchmarks.split_sentences
	.venv-light/bin/python -m benchmarks.compare
	.venv-light/bin/python -m benchmarks.train_quality
	.venv-light/bin/python -m benchmarks.resume_quality
	.venv-light/bin/python -m benchmarks.candidates
	.venv-light/bin/python -m benchmarks.bundled_choice
	.venv-light/bin/python -m benchmarks.bundled_pear

# Debian's Chromium, slowhttptest and shells, for the tests of pages, of the service and of completion; without them these are
# skipped, with the reason.
browser:
	@{ command -v chromium && command -v zsh && command -v fish; } >/dev/null || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium slowhttptest zsh fish >/dev/null; } || true

# Both test environments; with -j2 they are built at the same time.
environments: .venv-light/$(MARK) .venv-comet/$(MARK)

# torch is installed first and alone, so that no other package pulls the CUDA build.
.venv/$(MARK): pyproject.toml constraints/light.txt
	$(PYTHON) -m venv .venv
	.venv/bin/pip $(PIP_INSTALL) -c constraints/light.txt torch
	.venv/bin/pip $(PIP_INSTALL) -c constraints/light.txt -e .
	touch $@

.venv-light/$(MARK): pyproject.toml constraints/light.txt
	$(PYTHON) -m venv .venv-light
	.venv-light/bin/pip $(PIP_INSTALL) -c constraints/light.txt torch
	.venv-light/bin/pip $(PIP_INSTALL) -c constraints/light.txt -e ".[dev,docs,serve,embedding,language,sentence-transformers]"
	touch $@

.venv-comet/$(MARK): pyproject.toml constraints/comet.txt
	$(PYTHON) -m venv .venv-comet
	.venv-comet/bin/pip $(PIP_INSTALL) -c constraints/comet.txt torch setuptools
	.venv-comet/bin/pip $(PIP_INSTALL) -c constraints/comet.txt -e ".[dev,serve,ray,embedding,comet,bleurt]"
	touch $@

clean:
	rm -rf .venv .venv-light .venv-comet build dist site *.egg-info
