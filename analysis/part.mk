# SPDX-License-Identifier: MIT
# The Python side: a virtual environment from the lock file, the `heaptape` command, and its installation.

# flock: two makes at once must not fill one environment. The .pth is relative, so that a moved checkout still works.
# --no-compile, and then only what the commands import is compiled, by importing it: 25 of the 56 seconds of CPU time that
# making the environment took went into bytecode, most of it of packages' own tests. -I: whatever PYTHON* say, it is written.
USED := jinja2, matplotlib.pyplot, msgspec, numpy, pandas, PIL.Image, pyarrow.parquet, rich.console, scipy.stats, zstandard
$(VENV)/.stamp: requirements.lock analysis/part.mk
	@flock requirements.lock sh -ec '\
	  [ $@ -nt requirements.lock ] && [ $@ -nt analysis/part.mk ] && exit 0; \
	  rm -f $@; $(PYTHON) -m venv $(VENV); \
	  $(VENV)/bin/pip --disable-pip-version-check -q install --no-compile --require-hashes -r requirements.lock; \
	  $(VENV)/bin/python -I -c "import $(USED)"; \
	  for site in $(VENV)/lib/python3*/site-packages; do echo ../../../../analysis >$$site/heaptape.pth; done; \
	  touch $@'

ALL += $(OUT)/bin/heaptape
$(OUT)/bin/heaptape: analysis/launcher.in
	$(start)
	sed 's|@VENV@|$(abspath $(VENV))|; s|@CHECKOUT@|$(CURDIR)|' $< >$@
	chmod +x $@

lock: ## pin the newest Python dependencies anew (requirements.lock)
	$(PYTHON) -m venv $(OUT)/lock-venv
	$(OUT)/lock-venv/bin/pip -q install pip-tools
	CUSTOM_COMPILE_COMMAND='make lock' $(OUT)/lock-venv/bin/pip-compile -q --upgrade --generate-hashes --strip-extras \
	  --all-extras --no-emit-index-url --no-emit-find-links -o requirements.lock pyproject.toml

lint-python: $(VENV)/.stamp ## ruff over all Python files, mypy over package and benches; licence lines (tools/spdx)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/python tools/spdx --check
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy --python-version 3.11 --follow-imports silent --exclude /test/ tests/bench

.PHONY: lock lint-python

# The C writer and reader, for the tests of the independent Python reader.
$(call c_test_program,write_random_trace,analysis/test/write_random_trace.c,$(TRACE),$(CORE_LIBS))
