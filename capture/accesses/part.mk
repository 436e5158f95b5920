# SPDX-License-Identifier: MIT
# Data accesses of a program under our Valgrind tool, on their way into its trace.
RECORDER_FEATURES += capture/accesses
RECORDER_WAYS += capture/accesses/options.c capture/accesses/stream.c
# As of capture/host's: hooks leave the vector registers alone in the common cases.
$(OBJECTS)/pic/capture/accesses/hooks/accesses.o: HT_CFLAGS += -mgeneral-regs-only
