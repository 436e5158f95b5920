# The reference allocator: out/lib/libreference.so to preload, out/lib/libreference.a to link.
REFERENCE_FOLDERS := allocators/reference allocators/reference/arena allocators/reference/base
REFERENCE_SOURCES := $(call c_component_sources,$(REFERENCE_FOLDERS))
REFERENCE_LIB     := $(OUT)/lib/libreference.so
REFERENCE_ARCHIVE := $(OUT)/lib/libreference.a
ALL += $(REFERENCE_LIB) $(REFERENCE_ARCHIVE)

# The compiler must not know malloc and its kin where we define them; exceptions pass through operator new.
REFERENCE_CFLAGS := -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free -fexceptions
$(OUT)/pic/allocators/reference/%.o $(OUT)/obj/allocators/reference/%.o: HT_CFLAGS += $(REFERENCE_CFLAGS)

# now: no lazy binding inside a malloc.
$(REFERENCE_LIB): $(call c_pic_objects,$(REFERENCE_SOURCES))
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) -shared -Wl,-z,now -Wl,-z,defs -Wl,-soname,libreference.so -o $@ $^
$(REFERENCE_ARCHIVE): $(call c_pic_objects,$(REFERENCE_SOURCES))
	@mkdir -p $(@D)
	rm -f $@
	$(AR) rcs $@ $^

# The tests link the archive, and call it by its own names too. Each corruption of the heap is a program of its own.
REFERENCE_TEST := allocators/reference/test
REFERENCE_PLAIN_TESTS := api_keeps_to_posix_and_c23 fork_among_threads_leaves_both_heaps_usable caches_of_ended_threads_return \
  counters_add_up heaps_of_a_thread_come_and_go placement_follows_the_seed heap_walk_agrees_with_the_statistics
REFERENCE_MODEL_TESTS := objects_never_overlap_and_keep_their_contents threads_pass_objects_and_nothing_is_lost
REFERENCE_FAULT_TESTS := $(basename $(notdir $(wildcard $(REFERENCE_TEST)/faults/*_detected.c)))
# $(call reference_test,name,more sources)
reference_test = $(call c_test,$(REFERENCE_TEST)/$(1).c,$(2),,-pthread) \
  $(eval $(call c_test_binary,$(REFERENCE_TEST)/$(1).c): $(REFERENCE_ARCHIVE))
$(foreach test,$(REFERENCE_PLAIN_TESTS),$(call reference_test,$(test),))
$(foreach test,$(REFERENCE_MODEL_TESTS),$(call reference_test,$(test),$(REFERENCE_TEST)/model.c))
$(foreach test,$(REFERENCE_FAULT_TESTS),$(call reference_test,faults/$(test),$(REFERENCE_TEST)/faults/expect_fault.c))
# The compiler must leave each call where it stands.
$(OUT)/obj/$(REFERENCE_TEST)/%.o: HT_CFLAGS += -fno-builtin

# The stress of threads once more, instrumented: libtsan defines malloc itself, so ours has only its own names there.
# operators.c has no other names, so it stays out.
REFERENCE_TSAN_SOURCES := $(filter-out %/operators.c,$(REFERENCE_SOURCES)) $(REFERENCE_TEST)/model.c $(REFERENCE_TEST)/threads_pass_objects_and_nothing_is_lost.c
LONG_TEST_EXTRAS += $(OUT)/test-programs/reference_tsan
$(OUT)/tsan/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) $(REFERENCE_CFLAGS) -DREFERENCE_PREFIXED -fsanitize=thread -MMD -MP -c -o $@ $<
$(OUT)/test-programs/reference_tsan: $(patsubst %.c,$(OUT)/tsan/%.o,$(REFERENCE_TSAN_SOURCES))
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) -fsanitize=thread -o $@ $^ -pthread
-include $(shell find $(OUT)/tsan -name '*.d' 2>/dev/null)
