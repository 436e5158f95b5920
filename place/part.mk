# SPDX-License-Identifier: MIT
# Preloaded into programs: the sites of a plan are served from the isolated heap.
PLACE_LIB := $(OUT)/lib/libheaptape-place.so
ALL += $(PLACE_LIB)
# The compiler must not know the malloc API where we define it; the entry points end in sibling calls, whatever OPT is.
$(OBJECTS)/pic/place/place.o: HT_CFLAGS += -fno-builtin -foptimize-sibling-calls -fomit-frame-pointer -fasynchronous-unwind-tables
$(PLACE_LIB): $(call c_pic_objects,place/place.c place/plan.c place/sites.c core/isolated/isolated_heap.c core/unwind/unwind_rules.c core/elf/elf.c core/base/os.c)
	$(start)
	$(CC) $(HT_CFLAGS) -shared -Wl,-z,now -Wl,-z,initfirst -Wl,--gc-sections -Wl,-z,defs -Wl,-soname,libheaptape-place.so -o $@ $^ -ldl -pthread
$(call c_fuzzer,place/fuzz/fuzz_plan.c,place/plan.c,,)
