/* Mappings: sys/mman.h. */
#include "error.h"
#include <errno.h>
#include <io.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <windows.h>

static DWORD protection_of(int access)
{
    return (access & PROT_WRITE) != 0 ? PAGE_READWRITE : (access & PROT_READ) != 0 ? PAGE_READONLY : PAGE_NOACCESS;
}

static void *map_file(size_t bytes, int access, int flags, HANDLE file, off_t at)
{
    const BOOL writes = (access & PROT_WRITE) != 0, shared = (flags & MAP_SHARED) != 0;
    const uint64_t end = (uint64_t)at + bytes;
    HANDLE mapping;
    void *memory;

    mapping = CreateFileMappingA(file, NULL,
                                 !writes  ? PAGE_READONLY
                                 : shared ? PAGE_READWRITE
                                          : PAGE_WRITECOPY,
                                 writes && shared ? (DWORD)(end >> 32) : 0,
                                 writes && shared ? (DWORD)(end & UINT32_MAX) : 0, NULL);
    if (mapping == NULL) {
        (void)fail_as_errno();
        return MAP_FAILED;
    }
    memory = MapViewOfFile(mapping,
                           !writes  ? FILE_MAP_READ
                           : shared ? FILE_MAP_WRITE
                                    : FILE_MAP_COPY,
                           (DWORD)((uint64_t)at >> 32), (DWORD)((uint64_t)at & UINT32_MAX), bytes);
    if (memory == NULL)
        (void)fail_as_errno();
    (void)CloseHandle(mapping); /* the view keeps it */
    return memory != NULL ? memory : MAP_FAILED;
}

void *mmap(void *address, size_t bytes, int access, int flags, int fd, off_t at)
{
    void *memory;

    (void)address;
    if ((flags & MAP_FIXED) != 0) {
        errno = ENOTSUP;
        return MAP_FAILED;
    }
    if ((flags & MAP_ANONYMOUS) == 0)
        return map_file(bytes, access, flags, (HANDLE)_get_osfhandle(fd), at);
    memory = VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, protection_of(access));
    if (memory == NULL)
        (void)fail_as_errno();
    return memory != NULL ? memory : MAP_FAILED;
}

int munmap(void *address, size_t bytes)
{
    MEMORY_BASIC_INFORMATION info;

    (void)bytes;
    if (VirtualQuery(address, &info, sizeof info) == 0 || info.AllocationBase != address) {
        errno = EINVAL;
        return -1;
    }
    if (info.Type == MEM_MAPPED ? UnmapViewOfFile(address) : VirtualFree(address, 0, MEM_RELEASE))
        return 0;
    return fail_as_errno();
}

int mprotect(void *address, size_t bytes, int access)
{
    DWORD before;

    return VirtualProtect(address, bytes, protection_of(access), &before) ? 0 : fail_as_errno();
}

int msync(void *address, size_t bytes, int flags)
{
    (void)flags;
    return FlushViewOfFile(address, bytes) ? 0 : fail_as_errno();
}

int madvise(void *address, size_t bytes, int advice)
{
    if (advice == MADV_DONTNEED)
        (void)VirtualUnlock(address, bytes); /* pages that are not locked leave the working set */
    return 0;
}
