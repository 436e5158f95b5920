/* SPDX-License-Identifier: MIT */
/* Connects to the recorder, and executes another program; a child sends the request on the inherited connection. Prints
   what came of it: "recorded", "refused", or "closed". */
#include "capture/wire/ring.h"
#include "core/test/usual.h"

int main(void) {
  const char *setting = getenv(HEAPTAPE_ENV), *colon = setting ? strchr(setting, ':') : NULL;
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (!colon)
    return 2;
  size_t length = (size_t)(colon - setting);
  memcpy(address.sun_path + 1, setting, length);
  int connection = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  if (connect(connection, (struct sockaddr *)&address,
              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)))
    return 2;
  pid_t parent = getpid();
  if (fork() != 0) {
    execl("/bin/sleep", "sleep", "1", (char *)NULL);
    return 2;
  }
  struct attach_request request = {.magic = ATTACH_MAGIC, .number = 1, .kind = ATTACH_PROCESS, .pid = parent};
  request.proof = attach_proof(strtoull(colon + 1, NULL, 16), request.number, ATTACH_HOST_SIDE);
  struct attach_reply reply = {.refused = 1};
  usleep(200000); /* the parent has become the other program */
  send(connection, &request, sizeof request, MSG_NOSIGNAL);
  ssize_t got = recv(connection, &reply, sizeof reply, 0);
  puts(got != sizeof reply ? "closed" : reply.refused ? "refused" : "recorded");
  return 0;
}
