# SPDX-License-Identifier: MIT
# Our own allocators: out/lib/libNAME.so to preload, out/lib/libNAME.a to link.
# Each is made of its own folder and common/, compiled separately for it: ALLOCATOR_* select the tables to include. So
# nothing of common/ costs an indirection, and two allocators share no object file.
ALLOCATORS := $(patsubst allocators/%/malloc.c,%,$(wildcard allocators/*/malloc.c))
ALLOCATOR_TEST := allocators/test

# $(call allocator_sources,name), _library, _archive; $(call allocator_objects,name,kind of object): pic or tsan
allocator_sources = $(call c_component_sources,allocators/$(1) allocators/common)
allocator_library = $(OUT)/lib/lib$(1).so
allocator_archive = $(OUT)/lib/lib$(1).a
allocator_objects = $(patsubst %.c,$(OBJECTS)/allocators/$(1)/$(2)/%.o,$(3))
ALLOCATOR_LIBRARIES := $(foreach name,$(ALLOCATORS),$(call allocator_library,$(name)))
ALL += $(ALLOCATOR_LIBRARIES) $(foreach name,$(ALLOCATORS),$(call allocator_archive,$(name)))

# The compiler must not treat malloc and its kin as builtins where we define them; exceptions pass through operator new.
ALLOCATOR_CFLAGS := -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free -fexceptions
# $(call allocator_defines,name)
allocator_defines = -DALLOCATOR_NAME='"$(1)"' -DALLOCATOR_VARIABLE='"$(shell echo $(1) | tr a-z A-Z)_TUNABLES"' \
  -DALLOCATOR_TUNABLES='"allocators/$(1)/tunables.def"' -DALLOCATOR_COUNTERS='"allocators/$(1)/counters.def"'

# libtsan defines malloc itself, so ours has only its own names there; operators.c has no other names, so it stays out.
define allocator_rules
$(OBJECTS)/allocators/$(1)/pic/%.o: %.c
	$$(start)
	$(CC) $$(HT_CFLAGS) $(ALLOCATOR_CFLAGS) $(call allocator_defines,$(1)) -fPIC -MMD -MP -c -o $$@ $$<
$(OBJECTS)/allocators/$(1)/tsan/%.o: %.c
	$$(start)
	$(CC) $$(HT_CFLAGS) $(ALLOCATOR_CFLAGS) $(call allocator_defines,$(1)) -O1 -Wno-error -DALLOCATOR_PREFIXED -fsanitize=thread -MMD -MP -c -o $$@ $$<
# now: no lazy binding inside malloc.
$(call allocator_library,$(1)): $(call allocator_objects,$(1),pic,$(call allocator_sources,$(1)))
	$$(start)
	$(CC) $$(HT_CFLAGS) -shared -Wl,-z,now -Wl,-z,defs -Wl,-soname,$$(@F) -o $$@ $$^ -pthread
$(call allocator_archive,$(1)): $(call allocator_objects,$(1),pic,$(call allocator_sources,$(1)))
	$$(start)
	rm -f $$@
	$(AR) rcs $$@ $$^
LONG_TEST_EXTRAS += $(OUT)/test-programs/$(1)_tsan
$(OUT)/test-programs/$(1)_tsan: $(call allocator_objects,$(1),tsan,$(filter-out %/operators.c,$(call allocator_sources,$(1))) \
    $(ALLOCATOR_TEST)/model.c $(ALLOCATOR_TEST)/threads_pass_objects_and_nothing_is_lost.c)
	$$(start)
	$(CC) $$(HT_CFLAGS) -fsanitize=thread -o $$@ $$^ -pthread
$(OBJECTS)/obj/allocators/$(1)/test/%.o: HT_CFLAGS += -fno-builtin $(call allocator_defines,$(1))
endef
$(foreach name,$(ALLOCATORS),$(eval $(call allocator_rules,$(name))))
-include $(shell find $(OBJECTS)/allocators -name '*.d' 2>/dev/null)
# The compiler must not move or remove any call.
$(OBJECTS)/obj/$(ALLOCATOR_TEST)/%.o: HT_CFLAGS += -fno-builtin

# The tests link the archive, and call it by its own names, too. Those of allocators/test/ apply to each allocator.
ALLOCATOR_TESTS := api_keeps_to_posix_and_c23 fork_among_threads_leaves_both_heaps_usable caches_of_ended_threads_return \
  heap_walk_agrees_with_the_statistics
ALLOCATOR_COUNTED_TESTS := counts_of_threads_that_only_free_are_kept
ALLOCATOR_MODEL_TESTS := objects_never_overlap_and_keep_their_contents threads_pass_objects_and_nothing_is_lost
# $(call allocator_test,name,sources,place in out/test/allocators)
define allocator_test_rule
TESTS += $(OUT)/test/allocators/$(3)
$(OUT)/test/allocators/$(3): $(call c_objects,$(2)) $(call allocator_archive,$(1))
	$$(start)
	$(CC) $$(HT_CFLAGS) -o $$@ $$^ -pthread
endef
allocator_test = $(eval $(call allocator_test_rule,$(1),$(2),$(3)))
# $(call allocator_tests,name)
define allocator_tests
$(foreach test,$(ALLOCATOR_TESTS),$(call allocator_test,$(1),$(ALLOCATOR_TEST)/$(test).c,$(1)/$(test)))
$(foreach test,$(ALLOCATOR_MODEL_TESTS),$(call allocator_test,$(1),$(ALLOCATOR_TEST)/$(test).c $(ALLOCATOR_TEST)/model.c,$(1)/$(test)))
$(foreach test,$(ALLOCATOR_COUNTED_TESTS),$(call allocator_test,$(1),$(ALLOCATOR_TEST)/$(test).c $(ALLOCATOR_TEST)/counted.c,$(1)/$(test)))
$(call allocator_test,$(1),allocators/$(1)/test/faults_are_detected.c $(ALLOCATOR_TEST)/expect_fault.c,$(1)/faults_are_detected)
$(foreach source,$(filter-out %/faults_are_detected.c,$(wildcard allocators/$(1)/test/*.c)),$(call allocator_test,$(1),$(source) $(ALLOCATOR_TEST)/model.c $(ALLOCATOR_TEST)/counted.c,$(1)/$(basename $(notdir $(source)))))
endef
$(foreach name,$(ALLOCATORS),$(call allocator_tests,$(name)))
