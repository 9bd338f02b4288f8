#include "base/cpus.h"
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t cpus_by_affinity(void)
{
    /* More CPUs than a cpu_set_t has room for make the call fail until the set is large enough. */
    for (int n = 1024; n <= 1024 * 1024; n *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)n);
        size_t bytes = CPU_ALLOC_SIZE((size_t)n);
        int count = 0;

        if (set == NULL)
            break;
        if (sched_getaffinity(0, bytes, set) == 0)
            count = CPU_COUNT_S(bytes, set);
        CPU_FREE(set);
        if (count > 0)
            return (uint32_t)count;
    }
    return 1;
}

static bool read_line(const char *path, char *text, int bytes)
{
    FILE *file = fopen(path, "re");
    bool ok = file != NULL && fgets(text, bytes, file) != NULL;

    if (file != NULL)
        (void)fclose(file);
    return ok;
}

/* Whole CPUs that quota microseconds in every period allow, 0 = no limit. */
static uint32_t cpus_of_quota(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    return (uint32_t)((quota + period - 1) / period);
}

/* The tightest quota of the control group of this process and those above it (cgroup v2), or of a container whose root
 * is mounted (v1); 0 = none. */
static uint32_t cpus_by_cgroup(void)
{
    char group[512] = "", path[1024], line[128];
    long long quota, period;
    uint32_t least = 0;
    FILE *file = fopen("/proc/self/cgroup", "re");

    while (file != NULL && fgets(path, sizeof path, file) != NULL)
        if (strncmp(path, "0::", 3) == 0)
            (void)snprintf(group, sizeof group, "%.*s", (int)strcspn(path + 3, "\n"), path + 3);
    if (file != NULL)
        (void)fclose(file);
    for (;;) {
        char *slash;

        (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
        if (read_line(path, line, sizeof line) && sscanf(line, "%lld %lld", &quota, &period) == 2) {
            uint32_t cpus = cpus_of_quota(quota, period);
            if (cpus > 0 && (least == 0 || cpus < least))
                least = cpus;
        }
        slash = strrchr(group, '/');
        if (slash == NULL)
            break;
        *slash = '\0';
    }
    if (least == 0 && read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", line, sizeof line)) {
        quota = strtoll(line, NULL, 10);
        if (read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", line, sizeof line))
            least = cpus_of_quota(quota, strtoll(line, NULL, 10));
    }
    return least;
}

uint32_t cpus_allowed(void)
{
    uint32_t quota = cpus_by_cgroup(), cpus = cpus_by_affinity();

    return quota > 0 && quota < cpus ? quota : cpus;
}
