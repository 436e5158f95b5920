# SPDX-License-Identifier: MIT
# Decodes the instructions of functions that are redirected: for x86-64 alone.
DECODER := $(if $(findstring x86_64,$(shell $(CC) -dumpmachine)),-lZydis)
RECORDER_FEATURES += capture/linked
RECORDER_LIBRARIES += $(DECODER)
RECORDER_WAYS += capture/linked/linked.c
# As of capture/host's: exceptions go through operators new; hooks leave the vector registers alone in the common cases.
$(OBJECTS)/pic/capture/linked/hooks/linked_hooks.o: HT_CFLAGS += -fasynchronous-unwind-tables -mgeneral-regs-only

$(call c_test,capture/test/linked/redirected_functions_do_what_they_did.c,,capture/linked core/system core/elf core/base,$(DECODER) -ldl)
