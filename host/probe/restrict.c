#include "probe/restrict.h"
#include "base/cpus.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

void restrict_process(void)
{
    const struct rlimit none = { 0, 0 };

    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_DUMPABLE, 0); /* the limit does not apply to dumps that are piped */
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

void restrict_signals(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        if (signal(number, SIG_IGN) != SIG_ERR)
            (void)signal(number, SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

void restrict_memory(void)
{
    const rlim_t three_quarters = (rlim_t)(memory_allowed() / 4 * 3);
    const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    struct rlimit limit;

    if (fd >= 0) {
        (void)!write(fd, "1000", 4);
        (void)close(fd);
    }
    if (!RESTRICT_SHADOW_MEMORY && getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur > three_quarters) {
        limit.rlim_cur = three_quarters;
        (void)setrlimit(RLIMIT_DATA, &limit);
    }
}
