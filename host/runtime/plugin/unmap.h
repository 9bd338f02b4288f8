/* plugin/unmap.h - may a plugin be unmapped? */
#ifndef PLUGIN_UNMAP_H
#define PLUGIN_UNMAP_H
#include <stdbool.h>

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
#endif
