/* plugin/adopt.h - reading structs of a plugin that was built with another version of the headers, and whether it may
 * be unmapped. For the two that load plugins: the host, and the process that checks them. */
#ifndef PLUGIN_ADOPT_H
#define PLUGIN_ADOPT_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* LeakSanitizer names leaks by address at exit: what is unmapped by then has no names and counts as leaked. */
#if defined(__SANITIZE_ADDRESS__)
#define MAY_DLCLOSE false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MAY_DLCLOSE false
#endif
#endif
#ifndef MAY_DLCLOSE
#define MAY_DLCLOSE true
#endif

/* Copies a struct of another size into one of ours: what it lacks is zero, what it has beyond is left out. */
static inline void adopt(void *to, size_t to_bytes, const void *from, uint64_t from_bytes)
{
    memset(to, 0, to_bytes);
    memcpy(to, from, from_bytes < to_bytes ? (size_t)from_bytes : to_bytes);
}
#endif
