/* link.h: the place of a library; see dlfcn.h. */
#ifndef WINDOWS_LINK_H
#define WINDOWS_LINK_H
#include <stdint.h>

struct link_map {
    uintptr_t l_addr;
    char *l_name; /* the library's path */
    void *l_ld;   /* an address in the library */
};
#endif
