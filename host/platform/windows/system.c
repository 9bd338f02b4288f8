/* Processors, memory, times and the console. */
#include "base/futex.h"
#include "error.h"
#include <errno.h>
#include <io.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <windows.h>
/* after the header that declares HANDLE */
#include <psapi.h>

static uint64_t process_cpus(void)
{
    DWORD_PTR process = 1, system = 1;

    return GetProcessAffinityMask(GetCurrentProcess(), &process, &system) && process != 0 ? process : 1;
}

int sched_getaffinity(int pid, size_t bytes, cpu_set_t *out)
{
    (void)pid, (void)bytes;
    out->bits = process_cpus();
    return 0;
}

static int set_affinity(HANDLE thread, const cpu_set_t *set)
{
    return SetThreadAffinityMask(thread, (DWORD_PTR)set->bits) != 0 ? 0 : fail_as_errno();
}

int sched_setaffinity(int pid, size_t bytes, const cpu_set_t *set)
{
    (void)pid, (void)bytes;
    return set_affinity(GetCurrentThread(), set);
}

int sched_getcpu(void)
{
    return (int)GetCurrentProcessorNumber();
}

int pthread_getaffinity_np(pthread_t thread, size_t bytes, cpu_set_t *out)
{
    (void)thread;
    return sched_getaffinity(0, bytes, out);
}

int pthread_setaffinity_np(pthread_t thread, size_t bytes, const cpu_set_t *set)
{
    (void)bytes;
    return set_affinity(pthread_gethandle(thread), set) == 0 ? 0 : errno;
}

void futex_sleep(const uint32_t *word, uint32_t value)
{
    (void)WaitOnAddress((volatile void *)(uintptr_t)word, &value, sizeof value, INFINITE);
}

void futex_wake(const uint32_t *word)
{
    WakeByAddressSingle((void *)(uintptr_t)word);
}

static long second_level_bytes(void)
{
    DWORD bytes = 0;
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION *list;
    long found = -1;

    (void)GetLogicalProcessorInformation(NULL, &bytes);
    list = malloc(bytes);
    if (list != NULL && GetLogicalProcessorInformation(list, &bytes))
        for (size_t i = 0; i < bytes / sizeof *list; i++)
            if (list[i].Relationship == RelationCache && list[i].Cache.Level == 2)
                found = (long)list[i].Cache.Size;
    free(list);
    return found;
}

long sysconf(int name)
{
    MEMORYSTATUSEX memory = { .dwLength = sizeof memory };
    SYSTEM_INFO info;

    GetSystemInfo(&info);
    switch (name) {
    case _SC_PAGESIZE:
        return (long)info.dwAllocationGranularity;
    case _SC_PHYS_PAGES:
        return GlobalMemoryStatusEx(&memory) ? (long)(memory.ullTotalPhys / info.dwAllocationGranularity) : -1;
    case _SC_LEVEL2_CACHE_SIZE:
        return second_level_bytes();
    case _SC_NPROCESSORS_ONLN:
        return __builtin_popcountll(process_cpus());
    default:
        errno = EINVAL;
        return -1;
    }
}

pid_t gettid(void)
{
    return (pid_t)GetCurrentThreadId();
}

static struct timeval timeval_of(FILETIME time)
{
    const uint64_t ticks = (uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime; /* of 100 ns */

    return (struct timeval){ .tv_sec = (long)(ticks / 10000000), .tv_usec = (long)(ticks % 10000000 / 10) };
}

int getrusage(int who, struct rusage *out)
{
    FILETIME created, ended, kernel, user;
    PROCESS_MEMORY_COUNTERS memory = { .cb = sizeof memory };

    (void)who;
    if (!GetProcessTimes(GetCurrentProcess(), &created, &ended, &kernel, &user) ||
        !GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof memory))
        return fail_as_errno();
    *out = (struct rusage){ .ru_utime = timeval_of(user),
                            .ru_stime = timeval_of(kernel),
                            .ru_maxrss = (long)(memory.PeakWorkingSetSize / 1024) };
    return 0;
}

int setpriority(int which, int id, int nice)
{
    (void)which, (void)id;
    return SetThreadPriority(GetCurrentThread(), nice > 0 ? THREAD_PRIORITY_IDLE : THREAD_PRIORITY_NORMAL)
               ? 0
               : fail_as_errno();
}

int statvfs(const char *path, struct statvfs *out)
{
    ULARGE_INTEGER free_bytes;

    if (!GetDiskFreeSpaceExA(path, &free_bytes, NULL, NULL))
        return fail_as_errno();
    *out = (struct statvfs){ .f_bavail = free_bytes.QuadPart / 4096, .f_frsize = 4096 };
    return 0;
}

int ioctl(int fd, int request, struct winsize *out)
{
    CONSOLE_SCREEN_BUFFER_INFO info;

    (void)request;
    if (!GetConsoleScreenBufferInfo((HANDLE)_get_osfhandle(fd), &info))
        return fail_as_errno();
    *out = (struct winsize){ .ws_row = (unsigned short)(info.srWindow.Bottom - info.srWindow.Top + 1),
                             .ws_col = (unsigned short)(info.srWindow.Right - info.srWindow.Left + 1) };
    return 0;
}
