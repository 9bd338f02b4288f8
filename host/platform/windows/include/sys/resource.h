/* sys/resource.h: use of resources, without limits; in system.c. */
#ifndef WINDOWS_SYS_RESOURCE_H
#define WINDOWS_SYS_RESOURCE_H
#include <stdint.h>
#include <time.h>
#include <sys/time.h>

#define RUSAGE_SELF 0
#define RLIMIT_FSIZE 1
#define RLIM_INFINITY UINT64_MAX
#define PRIO_PROCESS 0

struct rusage {
    struct timeval ru_utime, ru_stime;
    long ru_maxrss; /* KiB */
    long ru_nivcsw; /* 0 */
};
struct rlimit {
    uint64_t rlim_cur, rlim_max;
};

int getrusage(int who, struct rusage *out);
static inline int getrlimit(int resource, struct rlimit *out)
{
    (void)resource;
    *out = (struct rlimit){ RLIM_INFINITY, RLIM_INFINITY };
    return 0;
}
/* Of the calling thread: any value above 0 is the lowest priority. */
int setpriority(int which, int id, int nice);
#endif
