# SPDX-License-Identifier: MIT
RECORDER_FEATURES += capture/attach capture/attach/tracee
RECORDER_WAYS += capture/attach/restorer.c

# For record --attach: the same, loaded into a running program. It exports its redirect table and nothing else, so that
# no reference is bound to its hooks but those that the recorder redirects.
HT_ATTACH_LIB := $(OUT)/lib/libheaptape-attach.so
ALL += $(HT_ATTACH_LIB)
HT_HOST_LIBS += $(HT_ATTACH_LIB)
$(OBJECTS)/pic/capture/attach/library/redirected.o: HT_CFLAGS += -fno-builtin
$(HT_ATTACH_LIB): $(call c_pic_objects,$(HT_HOST_SOURCES) capture/attach/library/redirected.c) capture/attach/library/redirected.map
	$(start)
	$(CC) $(HT_CFLAGS) -shared -Wl,-z,now $(HT_OWN_LIBC) -Wl,--gc-sections -Wl,-z,defs -Wl,--version-script=capture/attach/library/redirected.map -Wl,-soname,libheaptape-attach.so -o $@ $(filter %.o,$^) -ldl
$(OUT)/libexec/heaptape-record: | $(HT_ATTACH_LIB)

$(call c_test,capture/test/attach/no_write_reaches_a_program_executed_since.c,,capture/attach/tracee core/system core/elf core/base,-ldl)
$(call c_test,capture/test/attach/held_process_has_no_running_thread.c,,capture/attach/tracee core/system core/elf core/base,-ldl -pthread)
