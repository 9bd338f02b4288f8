#include "serve/base/guard.h"
#include <netinet/in.h>
#include <string.h>

enum { FREE_FAILURES = 3, FIRST_DELAY_MS = 50 };
static const uint64_t forget_ns = UINT64_C(60000000000);

static void read_address(const struct sockaddr *client, uint8_t out[16])
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = { .any = { .sa_family = AF_UNSPEC } };

    memset(out, 0, 16);
    if (client->sa_family == AF_INET) {
        memcpy(&address.v4, client, sizeof address.v4);
        out[10] = out[11] = 0xff;
        memcpy(out + 12, &address.v4.sin_addr, 4);
    } else if (client->sa_family == AF_INET6) {
        memcpy(&address.v6, client, sizeof address.v6);
        memcpy(out, &address.v6.sin6_addr, IN6_IS_ADDR_V4MAPPED(&address.v6.sin6_addr) ? 16 : 8);
    }
}

static uint32_t set_of(const uint8_t address[16])
{
    uint64_t parts[2], sum;

    memcpy(parts, address, sizeof parts);
    sum = (parts[0] ^ (parts[1] * UINT64_C(0xff51afd7ed558ccd))) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(sum >> 56) % GUARD_SETS;
}

/* The entry of the address, or the one that it replaces: unused, or with the oldest failure. */
static struct guard_entry *entry_of(struct guard_entry *set, const uint8_t address[16])
{
    struct guard_entry *oldest = &set[0];

    for (uint32_t i = 0; i < GUARD_WAYS; i++) {
        if (set[i].failures > 0 && memcmp(set[i].address, address, 16) == 0)
            return &set[i];
        if (set[i].last_ns < oldest->last_ns)
            oldest = &set[i];
    }
    *oldest = (struct guard_entry){ .failures = 0 };
    memcpy(oldest->address, address, 16);
    return oldest;
}

uint32_t guard_failed(struct guard *guard, const struct sockaddr *client, uint64_t now_ns)
{
    struct guard_entry *entry;
    uint8_t address[16];
    uint32_t failures, delay = FIRST_DELAY_MS;

    read_address(client, address);
    (void)pthread_mutex_lock(&guard->lock);
    entry = entry_of(guard->entries[set_of(address)], address);
    if (now_ns > entry->last_ns + forget_ns)
        entry->failures = 0;
    entry->failures += entry->failures < UINT32_MAX;
    entry->last_ns = now_ns;
    failures = entry->failures;
    (void)pthread_mutex_unlock(&guard->lock);
    if (failures <= FREE_FAILURES)
        return 0;
    for (uint32_t i = FREE_FAILURES + 1; i < failures && delay < GUARD_MAX_DELAY_MS; i++)
        delay *= 2;
    return delay;
}
