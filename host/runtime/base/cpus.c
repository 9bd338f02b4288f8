#include "base/cpus.h"
#include "inlay/check.h"
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t cpus_by_affinity(void)
{
    /* The call fails while the machine has more CPUs than the set can hold, so try larger sets. */
    for (int capacity = 1024; capacity <= 1024 * 1024; capacity *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)capacity);
        size_t bytes = CPU_ALLOC_SIZE((size_t)capacity);
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

/* Number of CPUs that `quota` microseconds per period allow, rounded up; 0 = no limit. */
static uint32_t cpus_of_quota(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    return (uint32_t)((quota + period - 1) / period);
}

/* The smallest value in this file of the process's control group and of its parents (cgroup v2); 0 = none. value()
 * reads it from a line; 0: no limit. */
static uint64_t least_in_groups(const char *name, uint64_t (*value)(const char *line))
{
    char group[512] = "", path[1024], line[128];
    uint64_t least = 0;
    FILE *file = fopen("/proc/self/cgroup", "re");

    while (file != NULL && fgets(path, sizeof path, file) != NULL)
        if (strncmp(path, "0::", 3) == 0)
            (void)snprintf(group, sizeof group, "%.*s", (int)strcspn(path + 3, "\n"), path + 3);
    if (file != NULL)
        (void)fclose(file);
    for (;;) {
        char *slash;

        (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", group, name);
        if (read_line(path, line, sizeof line)) {
            const uint64_t found = value(line);

            if (found > 0 && (least == 0 || found < least))
                least = found;
        }
        slash = strrchr(group, '/');
        if (slash == NULL)
            return least;
        *slash = '\0';
    }
}

static uint64_t cpus_of_line(const char *line)
{
    long long quota, period;

    return sscanf(line, "%lld %lld", &quota, &period) == 2 ? cpus_of_quota(quota, period) : 0;
}

static uint64_t bytes_of_line(const char *line)
{
    return strtoull(line, NULL, 10); /* "max": 0 */
}

/* The smallest quota of the process's control groups, or of a container whose root is mounted (v1), in CPUs; 0 =
 * none. */
static uint32_t cpus_by_cgroup(void)
{
    char line[128];
    long long quota;
    uint32_t least = (uint32_t)least_in_groups("cpu.max", cpus_of_line);

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

    INLAY_CHECK(cpus > 0);
    return quota > 0 && quota < cpus ? quota : cpus;
}

uint64_t memory_allowed(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    const uint64_t group = least_in_groups("memory.max", bytes_of_line);
    uint64_t bytes = pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : (uint64_t)INT64_MAX;
    char line[128];

    if (group > 0 && group < bytes)
        bytes = group;
    else if (group == 0 && read_line("/sys/fs/cgroup/memory/memory.limit_in_bytes", line, sizeof line) &&
             bytes_of_line(line) > 0 && bytes_of_line(line) < bytes)
        bytes = bytes_of_line(line);
    return bytes;
}
