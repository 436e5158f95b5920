REPLAY_ENGINE_SOURCES := $(addprefix replay/,engine.c loop.c call.c null_allocator.c order.c gate.c threads.c stream.c \
  memory.c memory_map.c counter.c histogram.c preload.c)
REPLAY_PARENT_SOURCES := $(addprefix replay/,run.c syscalls.c report.c report_map.c replay_main.c)
REPLAY_TRACE_SOURCES  := $(addprefix trace/,error.c event.c os.c)

$(eval $(call c_program,replay,$(REPLAY_PARENT_SOURCES) $(REPLAY_ENGINE_SOURCES) $(REPLAY_TRACE_SOURCES),-ljansson -lz -lpthread))

# RUSAGE_THREAD, pthread_attr_setstack, dladdr, memfd_create
$(OUT)/obj/replay/%.o: HT_CFLAGS += -D_GNU_SOURCE

REPLAY_TEST_SOURCES := replay/test/generate.c $(WORKLOAD_SOURCES) $(TRACE_SOURCES)
TEST_EXTRAS += $(OUT)/test/replay/make_workload
$(OUT)/test/replay/make_workload: $(call c_objects,replay/test/make_workload.c $(REPLAY_TEST_SOURCES))
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) -o $@ $^ $(TRACE_LIBS)
