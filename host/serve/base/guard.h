/* serve/base/guard.h - slows clients that guess tokens. */
#ifndef SERVE_GUARD_H
#define SERVE_GUARD_H
#include <pthread.h>
#include <stdint.h>
#include <sys/socket.h>

enum { GUARD_SETS = 256, GUARD_WAYS = 4, GUARD_MAX_DELAY_MS = 3200 };

/* The addresses that sent wrong tokens recently, in a table of fixed size: the oldest of a set gives way. */
struct guard {
    pthread_mutex_t lock; /* as {0}: not held */
    struct guard_entry {
        uint8_t address[16]; /* IPv4 as a mapped address; IPv6: the first 8 bytes, which a client's network has */
        uint32_t failures;   /* 0 = unused */
        uint64_t last_ns;
    } entries[GUARD_SETS][GUARD_WAYS];
};

/* Counts a wrong token of this client at the time `now_ns`. Returns the delay of the reply in milliseconds: none for
 * the first three of a minute without pause, then 50, 100, ... up to GUARD_MAX_DELAY_MS. Any thread. */
uint32_t guard_failed(struct guard *guard, const struct sockaddr *client, uint64_t now_ns);
#endif
