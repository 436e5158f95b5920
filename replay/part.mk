# SPDX-License-Identifier: MIT
# Linked as objects: passes register themselves, and use the engine.
REPLAY_COMPONENTS := replay replay/parent replay/engine $(sort $(patsubst %/,%,$(dir $(wildcard replay/passes/*.c replay/passes/*/*.c)))) replay/memory replay/calls
REPLAY_BELOW := core/isolated core/elf core/workload $(CORE_OF_FEATURES) core/trace core/command core/system core/base
REPLAY_LIBS  := -ljansson -lz -lpthread -lm -ldl
$(call c_components,$(REPLAY_COMPONENTS))
REPLAY_SOURCES := $(call c_component_sources,$(REPLAY_COMPONENTS))
$(call c_program,replay,$(REPLAY_SOURCES),$(REPLAY_BELOW),$(REPLAY_LIBS))
# The list of passes, from which Python has it. A build for another processor, other than a package's, uses this machine's;
# lint's programs are empty.
ifeq ($(if $(EMULATE),,$(CROSS))$(findstring clang-warnings,$(CC)),)
ALL += $(OUT)/lib/replay.json
endif
$(OUT)/lib/replay.json: $(OUT)/libexec/heaptape-replay
	$(start)
	$(EMULATE) $< --describe >$@.new && mv $@.new $@

$(call c_test,replay/test/units/histogram_percentiles_are_within_one_part_in_32.c,,replay/passes/time replay/calls core/isolated core/trace core/base,-ljansson -lm)
$(call c_test,replay/test/units/touch_writes_what_each_policy_says.c,,replay/calls core/isolated core/base,)
$(call c_test,replay/test/units/disturbance_reads_so_many_lines.c,,replay/passes/time replay/calls core/isolated core/trace core/base,-ljansson -lm)
$(call c_test,replay/test/units/watermark_loses_no_wakeup.c,,replay/engine core/base,-lpthread)
$(call c_test,replay/test/units/overlapping_claims_are_found.c,,replay/passes core/base,)
$(call c_test,replay/test/units/resident_os_pages_are_found_both_ways.c,,replay/memory core/base,)
# What goes with the pass blame.
ifneq ($(wildcard replay/passes/blame),)
$(call c_test,replay/test/units/lists_of_overlapping_objects_stay_in_their_room.c,$(filter-out replay/main.c,$(REPLAY_SOURCES)),$(REPLAY_BELOW),$(REPLAY_LIBS))

$(call c_fuzzer,replay/fuzz/fuzz_origins.c,$(filter-out replay/main.c,$(REPLAY_SOURCES)), $(REPLAY_BELOW),$(REPLAY_LIBS))
fuzzers: $(OUT)/corpus/.origins
$(OUT)/corpus/.origins: replay/fuzz/fuzz_seeds.py replay/test/passes/origins_file.py | $(VENV)/.stamp
	$(VENV)/bin/python -m replay.fuzz.fuzz_seeds $(@D)
	@touch $@
endif

# For the tests in Python: generated workloads, and an allocator whose costs and faults are known.
$(call c_test_program,make_workload,replay/test/programs/make_workload.c replay/test/programs/generate.c,$(WORKLOAD),$(CORE_LIBS))
$(call c_test_library,test-programs/libplanted.so,replay/test/programs/planted_allocator.c,)
$(call c_test_library,test-programs/libplacing.so,replay/test/programs/placing_allocator.c,)
$(call c_test_library,test-programs/libfaulty.so,replay/test/programs/faulty_allocator.c,-lpthread)
$(call c_test_library,test-programs/libleaving.so,replay/test/programs/leaving_allocator.c,)
$(call c_test_library,test-programs/libwaiting.so,replay/test/programs/waiting_allocator.c,-lpthread)

# The engine on the tests' own clock, from the same sources: replay/test/programs/planted_clock.h. -rdynamic: the
# planted allocator finds that clock by name. -O0 -g0: its costs are planted, so optimising, which takes the compiler
# twice as long, gains nothing.
PLANTED_CLOCK_OBJECTS := $(patsubst %.c,$(OUT)/planted-clock/%.o,$(REPLAY_SOURCES))
TEST_EXTRAS += $(OUT)/test-programs/heaptape-replay-planted-clock
$(OUT)/planted-clock/%.o: HT_CFLAGS += -O0 -g0 -include replay/test/programs/planted_clock.h
$(OUT)/planted-clock/%.o: %.c
	$(start)
	$(CC) $(HT_CFLAGS) -MMD -MP -c -o $@ $<
$(OUT)/test-programs/heaptape-replay-planted-clock: $(PLANTED_CLOCK_OBJECTS) $(call c_objects,replay/test/programs/planted_clock.c) $(call c_component_libraries,$(REPLAY_BELOW))
	$(start)
	$(CC) $(HT_CFLAGS) -rdynamic -o $@ $(filter %.o,$^) $(filter %.a,$^) $(REPLAY_LIBS)
-include $(PLANTED_CLOCK_OBJECTS:.o=.d)

# replay/test/test_sanitizers.py, tests/fuzz and `make sanitize` run these.
SANITIZED := $(call c_component_sources,$(REPLAY_COMPONENTS) $(REPLAY_BELOW))
$(call c_sanitized,thread,replay,$(SANITIZED),$(REPLAY_LIBS))
$(call c_sanitized,address,replay,$(SANITIZED),$(REPLAY_LIBS))

sanitize: setup ## run the engine long under ThreadSanitizer, AddressSanitizer and UBSan
	+@$(BUILD) $(OUT)/test-programs/make_workload $(OUT)/sanitize/thread/heaptape-replay $(OUT)/sanitize/address/heaptape-replay
	HEAPTAPE_OUT=$(abspath $(OUT)) SANITIZE_ROUNDS=5 $(VENV)/bin/python -m pytest -q replay/test/test_sanitizers.py
.PHONY: sanitize
