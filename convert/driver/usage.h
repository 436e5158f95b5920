/* What heaptape-convert --help prints: all of it, or with a command before it that command's part, which is also the
   help of `heaptape COMMAND`. */
#ifndef CONVERT_DRIVER_USAGE_H
#define CONVERT_DRIVER_USAGE_H

static const char usage_files[] = "IN and F: a trace (.tape), a workload (.work; check and info), or any format that "
                                  "'heaptape convert --list' shows, told\n"
                                  "by content. - is standard input or output.\n";

static const struct {
  const char *command, *text;
} usage[] = {
    {"compile", "usage: heaptape compile IN [-o OUT.work] [--json] [--horizon NS]\n"
                "\n"
                "Orders the events, proves the history legal, and writes the program that the replay engine runs. "
                "`heaptape replay` does\n"
                "this by itself when it is given a trace.\n"
                "--horizon is that of 'heaptape check'.\n"},
    {"check", "usage: heaptape check F [--json] [--ranges] [--horizon NS]\n"
              "\n"
              "Proves that the history is legal: every release is of a live object, no address is handed out while an "
              "object lives\n"
              "there. Exit 1 if not. Frees of objects never seen make a complete trace illegal; they don't where the "
              "trace says why: it\n"
              "is truncated, has dropped events, or lacks its start (an import, a forked child).\n"
              "\n"
              "  --ranges       also prove that no two live objects share a byte (only counted where the order is by "
              "ownership tags:\n"
              "                 they order the steps at one address, not those of neighbours)\n"
              "  --horizon NS   how long, in ns of the recording, a step that can't be legal yet waits for the one "
              "that makes it so\n"
              "                 (10 ms, or 0 where the order is known to be right)\n"},
    {"info", "usage: heaptape info F [--json]\n"
             "\n"
             "Counts per call, threads, bytes, dropped events, peak live bytes and the recorded memory of a trace "
             "(.tape), a workload\n"
             "(.work) or an Android memory_replay trace.\n"},
    {"profile", "usage: heaptape-convert profile F\n"
                "\n"
                "The figures that 'heaptape profile' shows, as JSON.\n"},
    {"dump",
     "usage: heaptape dump F [--format text|csv|jsonl] [--thread N] [--stacks [--debuginfod]]\n"
     "       heaptape dump F --stacks --nodes [--debuginfod]\n"
     "\n"
     "One event per line, in merged order. --stacks: the call stacks too, each where it first occurs, as function, "
     "file and\n"
     "line; where the files of the recording are not here, or have changed, as module and offset. --debuginfod: debug\n"
     "information that is not here may be fetched, as DEBUGINFOD_URLS says.\n"
     "\n"
     "--nodes: no events, but the tree that the stacks form, one JSON object per node, parents first:\n"
     "{\"node\": 7, \"parent\": 3, \"frames\": [...]}; a frame has function, file, line, module and offset as far as "
     "they are known.\n"},
    {"convert",
     "usage: heaptape convert [--from FMT] [--allow-gaps] [--process PID] [--slice SPEC]... [--anonymise]\n"
     "                        [--archive] IN [--to FMT] OUT\n"
     "       heaptape convert --merge [--slice SPEC]... [--anonymise] [--archive] IN... OUT\n"
     "       heaptape convert --list\n"
     "\n"
     "Formats are detected or named; --list prints those known.\n"
     "\n"
     "  --slice SPEC   a piece that is a legal history of its own: time=1.5s..3s, progress=10%..20%, "
     "progress=1000..5000\n"
     "                 (events), mark=FROM..TO, thread=0,3..5, size=1k..64k. Either side may be left out; several "
     "specs are\n"
     "                 the intersection. Objects alive where the piece begins come in as a prologue.\n"
     "  --merge        traces of several processes as one, as its threads\n"
     "  --anonymise    what a replay needs and no more: no addresses, times, names, stacks, marks\n"
     "  --archive      the smallest form; everything that reads a trace reads it\n"
     "  --allow-gaps   take a recording that says that events were lost; each loss becomes a gap of the trace\n"
     "  --process PID  of a recording of several processes, this one\n"},
};

#endif
