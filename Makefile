# heaptape. `make help` lists the targets. Non-recursive: each folder's part.mk says what it builds, with the macros below.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.SECONDARY:

OUT    ?= out
PREFIX ?= /usr/local
ifeq ($(origin CC),default)
CC := gcc
endif
OPT    ?= -O2 -g
CFLAGS ?=
PYTHON ?= python3
VENV   := .venv

HT_CFLAGS := -std=gnu11 -Wall -Wextra -Wmissing-prototypes -fvisibility=hidden -fno-plt -I. $(OPT) $(CFLAGS)

all: ## build everything into out/ (runs setup where something is missing)

# $(call c_objects,sources): their object files. $(call c_pic_objects,sources): the same for shared libraries.
c_objects     = $(patsubst %.c,$(OUT)/obj/%.o,$(1))
c_pic_objects = $(patsubst %.c,$(OUT)/pic/%.o,$(1))

# $(call c_program,name,sources,libraries): out/libexec/heaptape-name. $(call c_test,source,more sources,libraries): out/test/<part>/<name>,
# built by `make test` and run by tests/test_c_programs.py: exit 0 = passed, 77 = skipped (it says why), anything else = failed.
# $(call c_bench,source,more sources,libraries): out/bench/<name>, run by `make bench`.
define c_program
ALL += $(OUT)/libexec/heaptape-$(1)
$(OUT)/libexec/heaptape-$(1): $(call c_objects,$(2))
	@mkdir -p $$(@D)
	$(CC) $(HT_CFLAGS) -o $$@ $$^ $(3)
endef
define c_test
TESTS += $(OUT)/test/$(subst /test/,/,$(basename $(1)))
$(OUT)/test/$(subst /test/,/,$(basename $(1))): $(call c_objects,$(1) $(2))
	@mkdir -p $$(@D)
	$(CC) $(HT_CFLAGS) -o $$@ $$^ $(3)
endef
# $(call c_fuzzer,source,more sources,libraries): a libFuzzer target, built and run by `make fuzz`; and the same with a main
# of ours, which tests/test_fuzz_corpus.py gives its seeds.
define c_fuzzer
FUZZERS += $(basename $(notdir $(1)))
$(OUT)/$(basename $(notdir $(1))): $(call c_objects,$(1) $(2))
	@mkdir -p $$(@D)
	$(CC) $(HT_CFLAGS) -fsanitize=fuzzer -o $$@ $$^ $(3)
TEST_EXTRAS += $(OUT)/fuzz-corpus/$(basename $(notdir $(1)))
$(OUT)/fuzz-corpus/$(basename $(notdir $(1))): $(call c_objects,$(1) tests/programs/run_fuzz_target.c $(2))
	@mkdir -p $$(@D)
	$(CC) $(HT_CFLAGS) -o $$@ $$^ $(3)
endef
define c_bench
BENCHES += $(OUT)/bench/$(basename $(notdir $(1)))
$(OUT)/bench/$(basename $(notdir $(1))): $(call c_objects,$(1) $(2))
	@mkdir -p $$(@D)
	$(CC) $(HT_CFLAGS) -o $$@ $$^ $(3)
endef

# trace first: the others use its TRACE_SOURCES and TRACE_LIBS.
include trace/part.mk $(filter-out trace/part.mk,$(wildcard */part.mk))

$(OUT)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) -MMD -MP -c -o $@ $<
$(OUT)/pic/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) -fPIC -MMD -MP -c -o $@ $<
-include $(shell find $(OUT)/obj $(OUT)/pic -name '*.d' 2>/dev/null)

all: setup
	@$(MAKE) --no-print-directory everything
everything: $(ALL)

setup: ## install the Debian packages that are missing (root or sudo; else print the one command to run)
	@tools/setup

demo: all ## record redis and sqlite3, replay them under six allocators, write out/demo/*.html
	tools/demo $(OUT)

programs: everything $(TESTS) $(TEST_EXTRAS)
test: setup ## build and run all tests
	@$(MAKE) --no-print-directory programs
	HEAPTAPE_OUT=$(abspath $(OUT)) $(VENV)/bin/python -m pytest $(PYTEST)

bench: setup ## measure the targets; prints a table with machine and commit
	@$(MAKE) --no-print-directory programs $(BENCHES)
	HEAPTAPE_OUT=$(abspath $(OUT)) $(VENV)/bin/python -m tests.bench

STORMS ?= 100
stress: setup ## record STORMS storms of remote frees with forks and kills, and check each trace
	@$(MAKE) --no-print-directory programs
	HEAPTAPE_OUT=$(abspath $(OUT)) HEAPTAPE_STORMS=$(STORMS) $(VENV)/bin/python -m pytest -q tests/test_fork_storms.py

SUITES ?= cpython redis sqlite3 libreoffice chromium
suites: setup ## run other programs' test suites bare and recorded, and compare the verdicts (tests/suites.py says what it needs)
	@$(MAKE) --no-print-directory everything
	HEAPTAPE_OUT=$(abspath $(OUT)) $(VENV)/bin/python -m tests.suites $(SUITES)

# Each fuzzer has its own build under sanitizers; FUZZ_SECONDS bounds each.
FUZZ_SECONDS ?= 30
fuzz: setup ## fuzz the readers for FUZZ_SECONDS each, under ASan and UBSan
	@$(MAKE) --no-print-directory CC=clang OUT=$(OUT)/fuzz OPT="-O1 -g" CFLAGS="-fsanitize=fuzzer-no-link,address,undefined" fuzzers
	@set -e; for fuzzer in $(addprefix $(OUT)/fuzz/,$(FUZZERS)); do \
	  corpus=$(OUT)/fuzz/corpus/$$(basename $$fuzzer); mkdir -p $$corpus; \
	  echo "fuzz: $$(basename $$fuzzer)"; \
	  $$fuzzer -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=1024 -print_final_stats=0 -verbosity=0 \
	    -artifact_prefix=$(OUT)/fuzz/ $$corpus; done
fuzzers: $(addprefix $(OUT)/,$(FUZZERS))

FIDELITY_APPS ?=
FIDELITY_REPEATS ?= 3
fidelity: setup ## run programs live and replayed on every allocator; write docs/FIDELITY.md (an hour where nothing else runs)
	@$(MAKE) --no-print-directory everything
	-$(OUT)/bin/heaptape verify-fidelity $(FIDELITY_APPS) -v -n $(FIDELITY_REPEATS) --results docs/fidelity
	@$(MAKE) --no-print-directory fidelity-document
fidelity-document: ## write docs/FIDELITY.md and the errors that comparisons carry from docs/fidelity/
	$(OUT)/bin/heaptape verify-fidelity --read docs/fidelity/*.json.zst --write docs/FIDELITY.md --table analysis/heaptape/results/fidelity.json

lint: lint-c lint-python ## formatting and warnings: clang-format, ruff, and both compilers with -Werror
lint-c: setup
	clang-format --dry-run -Werror $(shell git ls-files '*.[ch]')
	@$(MAKE) --no-print-directory CC=clang OUT=$(OUT)/clang CFLAGS=-Werror VENV=$(VENV) programs
	@$(MAKE) --no-print-directory CC=gcc OUT=$(OUT)/gcc CFLAGS=-Werror VENV=$(VENV) programs

layers: ## fail on an include that runs upwards
	@python3 tools/layers

golden: everything ## refresh every golden file
	tools/golden $(OUT)

install: all install-python ## install under PREFIX (default /usr/local)
	install -d $(DESTDIR)$(PREFIX)/libexec/heaptape/workloads $(DESTDIR)$(PREFIX)/lib/heaptape $(DESTDIR)$(PREFIX)/include
	install -m 755 $(OUT)/libexec/heaptape-* $(DESTDIR)$(PREFIX)/libexec/heaptape/
	install -m 755 $(OUT)/workloads/* $(DESTDIR)$(PREFIX)/libexec/heaptape/workloads/
	install -m 755 $(OUT)/lib/libheaptape.so $(OUT)/lib/libreference.so $(DESTDIR)$(PREFIX)/lib/heaptape/
	install -m 644 capture/heaptape.h $(DESTDIR)$(PREFIX)/include/

clean: ## remove what was built (not .venv)
	rm -rf $(OUT)

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

.PHONY: all everything setup demo programs test bench stress suites fuzz fuzzers fidelity fidelity-document lint lint-c layers golden install clean help
