/* SPDX-License-Identifier: MIT */
/* Attaches to a recorder as its host would, and does what a script on standard input says, whatever that is.

   hostile_host NAME:SECRET. The script (tests/fuzz/hosts.py writes it) is a sequence of
   - 'A', u8 proven, u32 bytes, request: one exchange. The request's linked place is filled in where its table is 1; its
     number and proof, where it is proven. What is received is the next area: 0, 1, …;
   - 'W', u8 area, u64 offset, u32 bytes, content: written there, or sent where the area is a socket;
   - 'S', u32 microseconds: sleeps;
   - 'F': the process ends here, and its fork child goes on.
   Exit status 0; 3: the script needs an area that the recorder has not given. Its malloc is for the recorder to find;
   it is never called. */
#include "capture/wire/proof.h"
#include "capture/wire/ring.h"
#include "core/base/os.h"
#include "core/test/usual.h"

/* Which tests/fuzz/hosts.py has, too. */
_Static_assert(offsetof(struct bank, rings) == 32832 && sizeof(struct ring) == 128 && BANK_RINGS_FIRST == 16 &&
                   BANK_RINGS_MORE == 256 && offsetof(struct bank, calls_lost) == 24 &&
                   offsetof(struct bank, notes) == 56 && offsetof(struct attach_request, allocator) == 44 &&
                   offsetof(struct attach_request, linked) == 176 && offsetof(struct ring, large_stamps) == 48,
               "the layout that scripts write to");

enum { AREAS = 8, CONTENT_BYTES = 1 << 20 };
static struct area {
  char *memory; /* NULL: a socket */
  uint64_t bytes;
  int fd;
} area[AREAS];
static int areas;
static char content[CONTENT_BYTES], room[LINKED_ROOM_BYTES];
static struct linked_function table[LINKED_MOST];
static char *setting;
extern const char __executable_start;

__attribute__((noinline)) void *malloc(size_t bytes) {
  return bytes <= sizeof room ? room : NULL;
}

__attribute__((noinline)) void free(void *object) {
  content[0] = object != NULL;
}

static void get(void *to, size_t bytes) {
  for (size_t got = 0; got < bytes;) {
    ssize_t more = read(0, (char *)to + got, bytes - got);
    if (more <= 0)
      _exit(0);
    got += (size_t)more;
  }
}

static uint32_t get_content(void) {
  uint32_t bytes;
  get(&bytes, sizeof bytes);
  if (bytes > sizeof content)
    _exit(2);
  get(content, bytes);
  return bytes;
}

static void keep(int fd) {
  struct stat about;
  if (areas == AREAS || fd < 0 || fstat(fd, &about) != 0)
    return;
  area[areas].fd = fd;
  if (S_ISREG(about.st_mode)) {
    area[areas].bytes = (uint64_t)about.st_size;
    area[areas].memory = mmap(NULL, area[areas].bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  }
  areas++;
}

static void attach(void) {
  uint8_t proven;
  get(&proven, sizeof proven);
  uint32_t bytes = get_content();
  struct attach_request request;
  struct attach_reply reply;
  if (bytes >= sizeof request) {
    memcpy(&request, content, sizeof request);
    request.pid = request.pid ? request.pid : getpid();
    request.number = os_cycles();
    if (request.linked.table == 1) {
      request.linked.table = (uint64_t)table;
      request.linked.room = (uint64_t)room;
      request.linked.bias = (uint64_t)&__executable_start;
    }
    if (proven)
      request.proof = attach_proof(strtoull(strchr(setting, ':') + 1, NULL, 16), request.number, ATTACH_HOST_SIDE);
    memcpy(content, &request, sizeof request);
  }
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t name = (size_t)(strchr(setting, ':') - setting);
  memcpy(address.sun_path + 1, setting, name);
  int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  if (connect(sock, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + name)) != 0 ||
      send(sock, content, bytes, MSG_NOSIGNAL) < 0)
    _exit(3);
  union {
    char bytes[CMSG_SPACE(2 * sizeof(int))];
    struct cmsghdr align;
  } rights;
  struct iovec part = {&reply, sizeof reply};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = rights.bytes, .msg_controllen = sizeof rights.bytes};
  ssize_t got = recvmsg(sock, &message, 0);
  const struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
  int fds[2] = {-1, -1};
  if (head && head->cmsg_type == SCM_RIGHTS)
    memcpy(fds, CMSG_DATA(head), head->cmsg_len - CMSG_LEN(0));
  keep(fds[0]);
  close(sock);
}

static void put(void) {
  uint8_t to;
  uint64_t offset;
  get(&to, sizeof to);
  get(&offset, sizeof offset);
  uint32_t bytes = get_content();
  if (to >= areas)
    _exit(3);
  if (!area[to].memory)
    send(area[to].fd, content, bytes, MSG_NOSIGNAL);
  else if (offset <= area[to].bytes && bytes <= area[to].bytes - offset)
    memcpy(area[to].memory + offset, content, bytes);
}

int main(int count, char **arguments) {
  char what;
  uint32_t microseconds;
  if (count != 2 || !strchr(arguments[1], ':'))
    return 2;
  setting = arguments[1];
  for (;;) {
    get(&what, 1);
    switch (what) {
    case 'A':
      attach();
      break;
    case 'W':
      put();
      break;
    case 'S':
      get(&microseconds, sizeof microseconds);
      usleep(microseconds);
      break;
    case 'F':
      if (fork() > 0)
        _exit(0);
      break;
    default:
      return 2;
    }
  }
}
