/* The build of a plug-in, in place of kit/build_id.c: a hash of the code of its library. */
#include "inlay/kit.h"
#include <stdio.h>
#include <windows.h>

void kit_build_id(const void *address, const char *version, char *text, size_t bytes)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    MEMORY_BASIC_INFORMATION info;
    const char *base;

    if (VirtualQuery(address, &info, sizeof info) != 0) {
        base = info.AllocationBase;
        for (const char *at = base; VirtualQuery(at, &info, sizeof info) != 0 && info.AllocationBase == base;
             at += info.RegionSize) {
            const unsigned char *code = info.BaseAddress;

            for (size_t i = 0; (info.Protect & (PAGE_EXECUTE | PAGE_EXECUTE_READ)) != 0 && i < info.RegionSize; i++)
                hash = (hash ^ code[i]) * UINT64_C(1099511628211);
        }
    }
    (void)snprintf(text, bytes, "%s-%016llx", version, (unsigned long long)hash);
}
