# SPDX-License-Identifier: MIT
# heaptape. `make help` lists the targets. Non-recursive: each folder's part.mk says what it builds, with the macros below.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.SECONDARY:

OUT    ?= out
PREFIX ?= /usr/local
ifeq ($(origin CC),default)
CC := gcc
endif
# To compile and to run works in a folder with a space; other targets need names that make does not take apart.
ifneq ($(words $(CURDIR)$(DESTDIR)$(PREFIX)),1)
ifneq ($(filter-out all everything python-environment setup demo clean help,$(MAKECMDGOALS)),)
$(error A folder's name has a space ($(CURDIR), PREFIX=$(PREFIX)): `make $(MAKECMDGOALS)` works in and into folders without)
endif
endif
# CROSS=aarch64: everything for that processor, into out/aarch64/. `make setup-aarch64` installs what that needs. CROSS_LINK: options that
# choose another C library than CROSS_ROOT's.
CROSS ?=
ifneq ($(CROSS),)
override OUT := $(OUT)/$(CROSS)
CROSS_ROOT   := $(OUT)/root
override CC  := $(CROSS)-linux-gnu-gcc $(or $(CROSS_LINK),--sysroot=$(abspath $(CROSS_ROOT)))
AR           := $(CROSS)-linux-gnu-ar
endif
# Object files and archives. Builds that differ only in what is linked share them.
OBJECTS := $(OUT)
# -g1: functions and lines, which call stacks need; without local variables compiling takes a sixth less time. `make debug`
# has them, and so has OPT="-O2 -g".
OPT    ?= -O2 -g1
CFLAGS ?=
# WERROR=-Werror: warnings are errors. Not in CFLAGS, which make passes on to the programs that tests build, third-party ones too.
WERROR ?=
PYTHON ?= python3
VENV   := .venv

# One line per step; V=1 shows the commands instead. $(start) is the first line of a recipe that makes a file.
ifeq ($(V),)
.SILENT:
start = @mkdir -p $(@D); echo "  $@"
else
start = @mkdir -p $(@D)
endif

HT_CFLAGS := -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Wmissing-prototypes -fvisibility=hidden -fno-plt -I. $(OPT) $(WERROR) $(CFLAGS)

# As many compilers at a time as there are processors, unless -j was given.
BUILD = $(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

all: ## compile everything into out/; installs nothing

# $(call c_objects,sources): their object files. $(call c_pic_objects,sources): the same for shared libraries.
c_objects     = $(patsubst %.c,$(OBJECTS)/obj/%.o,$(1))
c_pic_objects = $(patsubst %.c,$(OBJECTS)/pic/%.o,$(1))

# A component is a folder of C sources with one job, and becomes a static library. Where components are listed, upper layers come first.
# $(call c_components,folders): declares them. $(call c_component_libraries,folders): their libraries.
# $(call c_component_sources,folders): their sources, for builds with separate flags.
c_component_libraries = $(patsubst %,$(OBJECTS)/components/%.a,$(1))
c_component_sources   = $(foreach component,$(1),$(wildcard $(component)/*.c))
define c_component_rule
$(OBJECTS)/components/$(1).a: $(call c_objects,$(wildcard $(1)/*.c))
	$$(start)
	rm -f $$@
	$(AR) rcs $$@ $$^
endef
c_components = $(foreach component,$(1),$(eval $(call c_component_rule,$(component))))

# Programs and libraries linked from objects, components and libraries:
# $(call c_program,name,sources,components,libraries): out/libexec/heaptape-name.
# Those for tests are left out where their source is: it goes with a feature.
# $(call c_test,source,more sources,components,libraries): out/test/<part>/<name>, built by `make test` and run by
#   tests/test_c_programs.py: exit 0 = passed, 77 = skipped (it says why), anything else = failed.
# $(call c_test_program,name,sources,components,libraries): out/test-programs/<name>, which tests in Python run.
# $(call c_test_library,path,sources,libraries): out/<path>, a shared library for tests.
# $(call c_fuzzer,source,more sources,components,libraries): a libFuzzer target, built and run by `make fuzz`; and the same with
#   our own main, to which tests/test_fuzz_corpus.py gives its seeds.
define c_link_rule
$(1): $(call c_objects,$(2)) $(call c_component_libraries,$(3))
	$$(start)
	$(CC) $$(HT_CFLAGS) -o $$@ $$(filter %.o,$$^) $$(filter %.a,$$^) $(4)
endef
define c_shared_rule
$(1): $(call c_pic_objects,$(2))
	$$(start)
	$(CC) $$(HT_CFLAGS) -shared -o $$@ $$^ $(3)
endef
# $(call c_sanitized,kind,name,sources,libraries): out/sanitize/KIND/heaptape-NAME, for long tests: the program under
# ThreadSanitizer (thread), or AddressSanitizer and UBSan (address). -O1: at -O2 the compiler takes two thirds longer.
# -Wno-error: with sanitizers gcc has false warnings.
SANITIZE_thread  := -fsanitize=thread
SANITIZE_address := -fsanitize=address,undefined -fno-sanitize-recover=undefined
define c_sanitized_object_rule
$(OUT)/sanitize/$(1)/%.o: %.c
	$$(start)
	$(CC) $$(HT_CFLAGS) -O1 -Wno-error -DSTACK_KIB=2048 -fno-omit-frame-pointer $(SANITIZE_$(1)) -MMD -MP -c -o $$@ $$<
endef
$(foreach kind,thread address,$(eval $(call c_sanitized_object_rule,$(kind))))
define c_sanitized_rule
LONG_TEST_EXTRAS += $(OUT)/sanitize/$(1)/heaptape-$(2)
$(OUT)/sanitize/$(1)/heaptape-$(2): $(patsubst %.c,$(OUT)/sanitize/$(1)/%.o,$(3))
	$$(start)
	$(CC) $(HT_CFLAGS) $(SANITIZE_$(1)) -o $$@ $$^ $(4)
-include $(patsubst %.c,$(OUT)/sanitize/$(1)/%.d,$(3))
endef
c_sanitized    = $(eval $(call c_sanitized_rule,$(1),$(2),$(3),$(4)))
c_link         = $(eval $(call c_link_rule,$(1),$(2),$(3),$(4)))
c_test_binary  = $(OUT)/test/$(subst /test/,/,$(basename $(1)))
c_program      = $(eval ALL += $(OUT)/libexec/heaptape-$(1))$(call c_link,$(OUT)/libexec/heaptape-$(1),$(2),$(3),$(4))
c_test         = $(if $(wildcard $(1)),$(eval TESTS += $(call c_test_binary,$(1)))$(call c_link,$(call c_test_binary,$(1)),$(1) $(2),$(3),$(4)))
c_test_program = $(if $(wildcard $(firstword $(2))),$(eval TEST_EXTRAS += $(OUT)/test-programs/$(1))$(call c_link,$(OUT)/test-programs/$(1),$(2),$(3),$(4)))
c_test_library = $(eval TEST_EXTRAS += $(OUT)/$(1))$(eval $(call c_shared_rule,$(OUT)/$(1),$(2),$(3)))
c_fuzzer       = $(if $(wildcard $(1)),$(eval FUZZERS += $(basename $(notdir $(1))))$(eval LONG_TEST_EXTRAS += $(OUT)/fuzz-corpus/$(basename $(notdir $(1)))) \
  $(call c_link,$(OUT)/$(basename $(notdir $(1))),$(1) $(2),$(3),-fsanitize=fuzzer $(4)) \
  $(call c_link,$(OUT)/fuzz-corpus/$(basename $(notdir $(1))),$(1) tests/programs/run_fuzz_target.c $(2),$(3),$(4)))

# core first: the other parts use its lists of components.
include core/part.mk convert/part.mk $(filter-out core/part.mk convert/part.mk,$(wildcard */part.mk analysis/heaptape/features/*/test/part.mk))

$(OBJECTS)/obj/%.o: %.c
	$(start)
	$(CC) $(HT_CFLAGS) -MMD -MP -c -o $@ $<
$(OBJECTS)/pic/%.o: %.c
	$(start)
	$(CC) $(HT_CFLAGS) -fPIC -MMD -MP -c -o $@ $<
-include $(shell find $(OBJECTS)/obj $(OBJECTS)/pic -name '*.d' 2>/dev/null)

# Once per checkout: names missing packages before the compiler fails for them.
$(OUT)/.checked: tools/check_build
	@mkdir -p $(@D)
	@tools/check_build "$(CC)"
	@touch $@

all: $(OUT)/.checked
	+@$(BUILD) everything
everything: $(ALL)

setup-test:
	@tools/setup @build @run @test
python-environment: $(VENV)/.stamp
setup: ## install what is needed to run: Debian packages (root or sudo; else print the one command to run), Python packages in .venv
	@tools/setup
	+@$(BUILD) python-environment

demo: setup ## record redis and sqlite3, replay them under the allocators found, write out/demo/*.html
	+@$(BUILD) everything
	tools/demo $(OUT)

pictures: ## after `make demo`: refresh the pictures of its report in docs
	.venv/bin/python tools/pictures.py $(OUT)/demo/redis.json

# The Python environment is made while the compilers run.
c-programs: everything $(TESTS) $(TEST_EXTRAS)
programs: c-programs python-environment
long-programs: programs $(LONG_TEST_EXTRAS)

# TEST_JOBS tests run at a time: one more than a small machine has processors, since tests wait for the processes that they
# start. PYTEST: files, or any of pytest's own options. Bytecode is kept: to compile it again takes two of five seconds of collecting.
# Tests with the marker aarch64 need its build and its emulator: make test-aarch64.
TEST_JOBS ?= 3
RUN_TESTS = PYTHONDONTWRITEBYTECODE= HEAPTAPE_OUT=$(abspath $(OUT)) $(VENV)/bin/python -m pytest
test: setup-test ## build and run all tests except the long ones, with fewer random examples (tests/README.md)
	+@$(BUILD) programs
	HEAPTAPE_EXAMPLES=few $(RUN_TESTS) -n $(TEST_JOBS) --dist worksteal -m "not long and not packages and not aarch64" $(PYTEST)
test-all: setup-test ## all tests except those of packages, with storms, mutants, sanitizers and all examples
	@tools/setup @long
	+@$(BUILD) long-programs
	$(RUN_TESTS) -n $(TEST_JOBS) --dist worksteal -m "not packages and not aarch64" $(PYTEST)

# Heaptape for aarch64, on another kind of machine: compiled by Debian's cross compiler, run by qemu (tools/emulate). PYTEST as above.
AARCH64 := $(OUT)/aarch64
setup-aarch64: setup-test $(AARCH64)/.complete
	@tools/setup @aarch64
$(AARCH64)/.complete: tools/cross-root
	tools/cross-root aarch64 $(AARCH64)
test-aarch64: setup-aarch64 ## compile for aarch64, and run the C tests and recordings and replays under emulation (docs/PLATFORMS.md)
	+@$(BUILD) everything python-environment
	+@$(BUILD) CROSS=aarch64 c-programs
	HEAPTAPE_AARCH64=$(abspath $(AARCH64)) $(RUN_TESTS) -n $(TEST_JOBS) --dist worksteal -m "aarch64 and not long" tests/test_aarch64.py $(PYTEST)

# For development: builds what these tests run, and no other test's programs. Installs no packages.
FILE ?=
check: ## FILE=some/test_file.py: build what it needs, run it, long tests included
	@[ -n "$(FILE)" ] || { echo "make check FILE=replay/test/test_engine.py (tests/README.md)" >&2; exit 2; }
	+@$(BUILD) everything python-environment $$(tools/tests-need $(OUT) $(FILE))
	$(RUN_TESTS) $(FILE)

bench: setup-test ## measure the targets; prints a table with machine and commit
	+@$(BUILD) programs
	HEAPTAPE_OUT=$(abspath $(OUT)) $(VENV)/bin/python -m tests.bench

STORMS ?= 100
stress: setup-test ## record STORMS storms of remote frees with forks and kills, and check each trace
	+@$(BUILD) programs
	HEAPTAPE_OUT=$(abspath $(OUT)) HEAPTAPE_STORMS=$(STORMS) $(VENV)/bin/python -m pytest -q tests/recording/test_storms.py -k each_process_of_a_storm

SUITES ?= programs cpython redis sqlite3 libreoffice chromium
suites: setup-test ## run other programs' test suites bare and recorded, and compare the verdicts (tests/suites.py says what it needs)
	+@$(BUILD) everything python-environment
	HEAPTAPE_OUT=$(abspath $(OUT)) $(VENV)/bin/python -m tests.suites $(SUITES)

# Each fuzzer has its own build under sanitizers; FUZZ_SECONDS limits each.
FUZZ_SECONDS ?= 30
fuzz: setup-test ## fuzz the readers for FUZZ_SECONDS each, under ASan and UBSan
	@tools/setup @lint
	+@$(BUILD) CC=clang OUT=$(OUT)/fuzz OPT="-O1 -g" CFLAGS="-fsanitize=fuzzer-no-link,address,undefined" fuzzers
	@set -e; for fuzzer in $(addprefix $(OUT)/fuzz/,$(FUZZERS)); do \
	  corpus=$(OUT)/fuzz/corpus/$$(basename $$fuzzer); mkdir -p $$corpus; \
	  echo "fuzz: $$(basename $$fuzzer)"; \
	  $$fuzzer -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=1024 -timeout=60 -print_final_stats=0 -verbosity=0 \
	    -artifact_prefix=$(OUT)/fuzz/ $$corpus; done
fuzzers: $(addprefix $(OUT)/,$(FUZZERS))

# Unlike the fuzzers', these inputs keep their structure and checksums, and go to the whole programs.
MUTANTS ?= 10000
mutants: setup-test ## give MUTANTS changed inputs to all readers, the engine and a recorder, under ASan and UBSan
	+@$(BUILD) programs $(addprefix $(OUT)/sanitize/address/heaptape-,convert record replay)
	HEAPTAPE_MUTANTS=$(MUTANTS) $(RUN_TESTS) -n $(TEST_JOBS) tests/fuzz/test_mutants.py $(PYTEST)

# ATLAS: further allocators or versions, such as mimalloc@3.4, and -j N: cells at a time.
ATLAS ?=
atlas: setup-test ## replay corpus and recipes on every allocator; write docs/atlas and print what changed (hours; it resumes)
	+@$(BUILD) everything python-environment
	HEAPTAPE_OUT=$(abspath $(OUT)) $(VENV)/bin/python -m heaptape.features.fleet.test.make_atlas $(ATLAS)

FIDELITY_APPS ?=
FIDELITY_REPEATS ?= 3
fidelity: setup-test ## run programs live and replayed on every allocator; write docs/methods/FIDELITY.md (an hour on an idle machine)
	+@$(BUILD) everything python-environment
	-HEAPTAPE_OUT=$(abspath $(OUT)) $(VENV)/bin/python -m tests.bench.fidelity $(FIDELITY_APPS) -v -n $(FIDELITY_REPEATS) --results docs/methods/fidelity
	@$(MAKE) --no-print-directory fidelity-document
fidelity-counted: setup-test ## the same by counts, on short programs under a simulation (about an hour of one processor)
	+@$(BUILD) everything python-environment
	-HEAPTAPE_OUT=$(abspath $(OUT)) $(VENV)/bin/python -m tests.bench.fidelity --counted --accesses $(FIDELITY_APPS) -v --results docs/methods/fidelity/counted
	@$(MAKE) --no-print-directory fidelity-document
fidelity-timed: setup-test ## CPU time predicted from counts, against alternating live runs (about 20 minutes on an idle machine)
	+@$(BUILD) everything python-environment
	-HEAPTAPE_OUT=$(abspath $(OUT)) $(VENV)/bin/python -m tests.bench.fidelity --timed $(FIDELITY_APPS) -v --results docs/methods/fidelity/timed
	@$(MAKE) --no-print-directory fidelity-document
fidelity-document: ## write docs/methods/FIDELITY.md and the errors that comparisons carry from docs/methods/fidelity/
	HEAPTAPE_OUT=$(abspath $(OUT)) $(VENV)/bin/python -m tests.bench.fidelity --read docs/methods/fidelity/*.json.zst $(wildcard docs/methods/fidelity/counted/*.json.zst docs/methods/fidelity/timed/*.json.zst) --write docs/methods/FIDELITY.md --table analysis/heaptape/results/fidelity.json

# With WERROR=-Werror, as .ci/run sets it, gcc's output is shared with the other targets.
lint: lint-c lint-python ## formatting and warnings: clang-format, ruff, and both compilers with -Werror
lint-c: setup-test
	@tools/setup @lint
	clang-format --dry-run -Werror $(shell git ls-files '*.[ch]')
	+@$(BUILD) CC=tools/clang-warnings AR=tools/clang-warnings OUT=$(OUT)/clang WERROR=-Werror VENV=$(VENV) lint-programs
	+@$(BUILD) CC=gcc OUT=$(if $(WERROR),$(OUT),$(OUT)/gcc) WERROR=-Werror VENV=$(VENV) lint-programs

# Assertions everywhere, and undefined behaviour traps. AddressSanitizer only where nothing else defines malloc, because its
# runtime does: core/ here, the importers and readers in `make fuzz`, the engine in `make sanitize`.
DEBUG_FLAGS := -DHT_DEBUG -fsanitize=undefined -fsanitize-undefined-trap-on-error
ASAN_FLAGS  := -DHT_DEBUG -fsanitize=address,undefined -fno-sanitize-recover=undefined
asan-programs: $(filter $(OUT)/test/core/%,$(TESTS))
debug: setup-test ## build with assertions and sanitizers into out/debug and out/asan, and run the C tests of both
	+@$(BUILD) OUT=$(OUT)/debug OPT="-O1 -g" CFLAGS="$(DEBUG_FLAGS)" programs
	+@$(BUILD) OUT=$(OUT)/asan OPT="-O1 -g" CFLAGS="$(ASAN_FLAGS)" asan-programs
	HEAPTAPE_OUT=$(abspath $(OUT)/debug) $(VENV)/bin/python -m pytest -q tests/test_c_programs.py
	for test in $$(find $(OUT)/asan/test -type f -perm -u+x); do echo "$$test"; "$$test" || exit 1; done

compile_commands.json: ## for editors: how each C file is compiled
	@$(MAKE) --no-print-directory --always-make --dry-run programs | python3 tools/compile_commands.py >$@

lint-programs: programs $(filter $(OUT)/fuzz-corpus/%,$(LONG_TEST_EXTRAS))

layers: everything ## check includes, imports and symbols: only those listed in tools/layers/layers.toml, no cycle of files
	@python3 tools/layers/layers.py $(OUT)
	@$(foreach library,$(HT_HOST_LIBS),python3 tools/host_symbols.py $(library) &&) true

golden: everything ## refresh every golden file
	tools/golden $(OUT)

clean: ## remove what was built (not .venv)
	rm -rf $(OUT)

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 24

.PHONY: c-programs setup-aarch64 test-aarch64 lint-programs all everything setup python-environment setup-test demo pictures programs long-programs test test-all check debug asan-programs compile_commands.json bench stress suites fuzz fuzzers mutants fidelity fidelity-counted fidelity-timed fidelity-document atlas lint lint-c lint-python layers golden clean help
