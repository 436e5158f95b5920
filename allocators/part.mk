# The reference allocator: out/lib/libreference.so to preload, out/lib/libreference.a to link.
REFERENCE_SOURCES := $(addprefix allocators/reference/,malloc.c free.c realloc.c aligned.c operators.c info.c walk.c \
  arena.c heap.c bins.c mapped.c tcache.c tunables.c counters.c lock.c startup.c fault.c)
REFERENCE_LIB     := $(OUT)/lib/libreference.so
REFERENCE_ARCHIVE := $(OUT)/lib/libreference.a
ALL += $(REFERENCE_LIB) $(REFERENCE_ARCHIVE)

# The compiler must not know malloc and its kin where we define them; exceptions pass through operator new.
REFERENCE_CFLAGS := -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free -fexceptions -D_GNU_SOURCE
$(OUT)/pic/allocators/reference/%.o $(OUT)/obj/allocators/reference/%.o: HT_CFLAGS += $(REFERENCE_CFLAGS)

# now: no lazy binding inside a malloc.
$(REFERENCE_LIB): $(call c_pic_objects,$(REFERENCE_SOURCES))
	@mkdir -p $(@D)
	$(CC) $(HT_CFLAGS) -shared -Wl,-z,now -Wl,-z,defs -Wl,-soname,libreference.so -o $@ $^
$(REFERENCE_ARCHIVE): $(call c_pic_objects,$(REFERENCE_SOURCES))
	@mkdir -p $(@D)
	rm -f $@
	$(AR) rcs $@ $^

# The tests link the archive, and call it by its own names too.
REFERENCE_MODEL := allocators/reference/test/model.c
REFERENCE_MODEL_TESTS := objects_never_overlap_and_keep_their_contents threads_pass_objects_and_nothing_is_lost
$(foreach test,$(REFERENCE_MODEL_TESTS),$(eval $(call c_test,allocators/reference/test/$(test).c,$(REFERENCE_MODEL),$(REFERENCE_ARCHIVE) -pthread)))
$(foreach test,$(REFERENCE_MODEL_TESTS),$(eval $(OUT)/test/allocators/reference/$(test): $(REFERENCE_ARCHIVE)))
