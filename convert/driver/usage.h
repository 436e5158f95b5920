/* What heaptape-convert --help prints. */
#ifndef CONVERT_DRIVER_USAGE_H
#define CONVERT_DRIVER_USAGE_H

static const char usage[] =
    "usage: heaptape-convert compile IN [-o OUT.work] [--json] [--horizon NS]\n"
    "       heaptape-convert check F [--json] [--ranges] [--horizon NS]\n"
    "       heaptape-convert info F [--json]\n"
    "       heaptape-convert profile F\n"
    "       heaptape-convert dump F [--format text|csv|jsonl] [--thread N] [--stacks [--debuginfod]]\n"
    "       heaptape-convert dump F --stacks --nodes [--debuginfod]\n"
    "       heaptape-convert convert [--from FMT] [--allow-gaps] [--process PID] [--slice SPEC]... [--anonymise] "
    "[--archive] "
    "IN [--to FMT] OUT\n"
    "       heaptape-convert convert --merge [--slice SPEC]... [--anonymise] [--archive] IN... OUT\n"
    "       heaptape-convert convert --list\n"
    "\n"
    "IN and F: a trace (.tape), a workload (.work; check and info), or any format that convert "
    "--list shows, told by content. - is standard input\n"
    "or output.\n"
    "\n"
    "--slice keeps a piece that is a legal history of its own: time=1.5s..3s, progress=10%..20%, progress=1000..5000\n"
    "(events), mark=FROM..TO, thread=0,3..5, size=1k..64k; either side may be left out; several are the intersection.\n"
    "--merge joins traces of several processes into one, as its threads. --anonymise leaves what a replay needs and "
    "no\n"
    "more: no addresses, times, names, stacks, marks. --archive writes the smallest form; everything reads it.\n"
    "\n"
    "check proves that the history is legal: every release is of a live object, no address is handed out while an\n"
    "object lives there. Exit 1 if not. Frees of objects never seen make a complete trace illegal; they don't where "
    "the\n"
    "trace says why: it is truncated, has dropped events, or lacks its start (an import, a forked child).\n"
    "--ranges also proves that no two live objects share a byte (only counted where the order is by ownership tags: "
    "they\n"
    "order the steps at one address, not those of neighbours).\n"
    "--horizon: how long, in ns of the recording, a step that can't be legal yet waits for the one that makes it so\n"
    "(10 ms, or 0 where the order is known to be right).\n"
    "--allow-gaps takes recordings that say that events were lost; --process chooses among the processes of one.\n";

#endif
