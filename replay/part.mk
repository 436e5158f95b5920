REPLAY_ENGINE_SOURCES := $(addprefix replay/,engine.c loop.c call.c null_allocator.c order.c turns.c pace.c recorded_clock.c disturb.c gate.c threads.c stream.c \
  memory.c memory_map.c counter.c timing.c histogram.c preload.c verify.c claims.c residency.c \
  held.c proc_status.c instructions.c pmu.c allocator_stats.c sharing.c \
  fragmentation.c os_pages.c heap_walk.c)
REPLAY_PARENT_SOURCES := $(addprefix replay/,run.c callgrind.c notify.c syscalls.c report.c report_time.c report_memory.c report_pmu.c report_map.c \
  report_packed.c report_fragmentation.c replay_main.c)
REPLAY_TRACE_SOURCES  := $(addprefix trace/,error.c event.c os.c os_switch.c line_sharing.c line_sharing_json.c)

$(eval $(call c_program,replay,$(REPLAY_PARENT_SOURCES) $(REPLAY_ENGINE_SOURCES) $(REPLAY_TRACE_SOURCES),-ljansson -lz -lpthread -lm))
$(eval $(call c_program,observe,$(addprefix replay/,observe_main.c observe.c notify.c) trace/os.c,-ljansson))

# RUSAGE_THREAD, pthread_attr_setstack, dladdr, memfd_create
$(OUT)/obj/replay/%.o: HT_CFLAGS += -D_GNU_SOURCE

$(eval $(call c_test,replay/test/histogram_percentiles_are_within_one_part_in_32.c,replay/histogram.c,))
$(eval $(call c_test,replay/test/touch_writes_what_each_policy_says.c,,))
$(eval $(call c_test,replay/test/disturbance_reads_so_many_lines.c,replay/disturb.c trace/os.c,))
$(eval $(call c_test,replay/test/gate_loses_no_wakeup.c,replay/gate.c trace/os.c,-lpthread))
$(eval $(call c_test,replay/test/overlapping_claims_are_found.c,replay/claims.c trace/os.c,))
$(eval $(call c_test,replay/test/resident_os_pages_are_found_both_ways.c,replay/residency.c trace/os.c,))

$(eval $(call c_bench,replay/bench/counter_reads.c,trace/os.c,))

# What the tests in Python replay: generated workloads, on an allocator whose costs and faults are known.
REPLAY_TEST_SOURCES = replay/test/make_workload.c replay/test/generate.c $(WORKLOAD_SOURCES) $(TRACE_SOURCES)
TEST_EXTRAS += $(OUT)/test-programs/make_workload $(OUT)/test-programs/libplanted.so $(OUT)/test-programs/libfaulty.so $(OUT)/test-programs/libplacing.so
$(OUT)/test-programs/make_workload: $(call c_objects,$(REPLAY_TEST_SOURCES))
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) -o $@ $^ $(TRACE_LIBS)
$(OUT)/test-programs/libplanted.so: $(call c_pic_objects,replay/test/planted_allocator.c)
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) -shared -o $@ $^
$(OUT)/test-programs/libplacing.so: $(call c_pic_objects,replay/test/placing_allocator.c)
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) -shared -o $@ $^
$(OUT)/test-programs/libfaulty.so: $(call c_pic_objects,replay/test/faulty_allocator.c)
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) -shared -o $@ $^ -lpthread

# The engine on a clock of the tests' own, from the same sources: replay/test/planted_clock.h. -rdynamic: the planted
# allocator finds that clock by name.
PLANTED_CLOCK_OBJECTS := $(patsubst %.c,$(OUT)/planted-clock/%.o,$(REPLAY_PARENT_SOURCES) $(REPLAY_ENGINE_SOURCES))
TEST_EXTRAS += $(OUT)/test-programs/heaptape-replay-planted-clock
$(OUT)/planted-clock/%.o: HT_CFLAGS += -D_GNU_SOURCE -include replay/test/planted_clock.h
$(OUT)/planted-clock/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) -MMD -MP -c -o $@ $<
$(OUT)/test-programs/heaptape-replay-planted-clock: $(PLANTED_CLOCK_OBJECTS) $(call c_objects,replay/test/planted_clock.c $(REPLAY_TRACE_SOURCES))
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) -rdynamic -o $@ $^ -ljansson -lz -lpthread -lm
-include $(PLANTED_CLOCK_OBJECTS:.o=.d)

# The engine under ThreadSanitizer, and under AddressSanitizer and UBSan; replay/test/test_sanitizers.py and `make sanitize` run it.
# $(call replay_sanitized,name,flags): out/sanitize/NAME/heaptape-replay.
comma := ,
define replay_sanitized
LONG_TEST_EXTRAS += $(OUT)/sanitize/$(1)/heaptape-replay
$(OUT)/sanitize/$(1)/replay/%.o: HT_CFLAGS += -D_GNU_SOURCE
$(OUT)/sanitize/$(1)/%.o: %.c
	@mkdir -p $$(@D)
	$(CC) $$(HT_CFLAGS) -DSTACK_KIB=2048 -fno-omit-frame-pointer $(2) -MMD -MP -c -o $$@ $$<
$(OUT)/sanitize/$(1)/heaptape-replay: $(patsubst %.c,$(OUT)/sanitize/$(1)/%.o,$(REPLAY_PARENT_SOURCES) $(REPLAY_ENGINE_SOURCES) $(REPLAY_TRACE_SOURCES))
	$(CC) $(HT_CFLAGS) $(2) -o $$@ $$^ -ljansson -lz -lpthread -lm
-include $(patsubst %.c,$(OUT)/sanitize/$(1)/%.d,$(REPLAY_PARENT_SOURCES) $(REPLAY_ENGINE_SOURCES) $(REPLAY_TRACE_SOURCES))
endef
$(eval $(call replay_sanitized,thread,-fsanitize=thread))
$(eval $(call replay_sanitized,address,-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined))

sanitize: setup ## run the engine long under ThreadSanitizer, AddressSanitizer and UBSan
	@$(MAKE) --no-print-directory $(OUT)/test-programs/make_workload $(OUT)/sanitize/thread/heaptape-replay $(OUT)/sanitize/address/heaptape-replay
	HEAPTAPE_OUT=$(abspath $(OUT)) SANITIZE_ROUNDS=5 $(VENV)/bin/python -m pytest -q replay/test/test_sanitizers.py
.PHONY: sanitize
