/* SPDX-License-Identifier: MIT */
/* Who is at the other end of the recorder's socket: what a host and the recorder each check before they trust it.

   The socket is abstract. A socket in a folder of mode 0700 would keep other users out, but not every recorded process
   could reach it: one that has another root directory or mount name space has no such path, and neither has an attached
   process in a container. For programs in another network namespace, and those that Landlock keeps from abstract names,
   there is a second one in /tmp, which all users may connect to as well. Anyone in the network name space can connect
   to an abstract name, and bind it once the recorder has ended. So each side checks the other, at each connection:
   - the host, the user of the process that listens (SO_PEERCRED): its own, or root;
   - the recorder, that of the process that connected, and that the request came from that process (SCM_CREDENTIALS);
   - both, that the other knows the secret, which is never sent: each sends a proof of it for a number that the host has
     chosen for this connection. This also holds where a user name space hides who the other is: there, all users that
     it lacks have the same number. The number of the connection need not be random, only new: the recorder proves
     nothing to a process that has not proven the secret first.

   Pure functions. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum attach_side { ATTACH_HOST_SIDE = 1, ATTACH_RECORDER_SIDE = 2 };

/* SipHash-2-4 with a key that the secret gives, of the number and the side. */
static inline uint64_t attach_proof(uint64_t secret, uint64_t number, enum attach_side side) {
  const uint64_t key[2] = {secret, secret ^ 0x6865617074617065u};
  const uint64_t words[3] = {number, (uint64_t)side, (uint64_t)16 << 56};
  uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                   key[1] ^ 0x7465646279746573u};
  for (int word = 0; word < 5; word++) { /* three words, two rounds each; then the four last rounds */
    v[3] ^= word < 3 ? words[word] : 0;
    v[2] ^= word == 3 ? 0xff : 0;
    for (int round = 0; round < 2; round++) {
#define ATTACH_TURN(value, bits) ((value) << (bits) | (value) >> (64 - (bits)))
      v[0] += v[1], v[1] = ATTACH_TURN(v[1], 13) ^ v[0], v[0] = ATTACH_TURN(v[0], 32);
      v[2] += v[3], v[3] = ATTACH_TURN(v[3], 16) ^ v[2];
      v[0] += v[3], v[3] = ATTACH_TURN(v[3], 21) ^ v[0];
      v[2] += v[1], v[1] = ATTACH_TURN(v[1], 17) ^ v[2], v[2] = ATTACH_TURN(v[2], 32);
#undef ATTACH_TURN
    }
    v[0] ^= word < 3 ? words[word] : 0;
  }
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* What the kernel reports for a user that the reader's user name space does not have. */
enum { ATTACH_UNMAPPED_USER = 65534 };

/* Does the name space with that /proc/self/uid_map have all users? Then the number above is a user's, nobody's. */
static inline bool attach_has_all_users(const char *uid_map) {
  const char *wanted = "0 0 4294967295\n";
  while (*uid_map == ' ')
    uid_map++;
  for (; *wanted && *uid_map == *wanted; wanted++) {
    uid_map++;
    while (*wanted == ' ' && *uid_map == ' ')
      uid_map++;
  }
  return !*wanted;
}

/* May a process with these user ids (real, effective, saved) attach to a recorder that this user runs? Where the three
   differ, only root is above all of them. hidden: it may be a user that the name space lacks. */
static inline bool attach_trusts(uint32_t recorder, const uint32_t own[3], bool hidden) {
  return recorder == 0 || (recorder == ATTACH_UNMAPPED_USER && hidden) ||
         (recorder == own[0] && recorder == own[1] && recorder == own[2]);
}
