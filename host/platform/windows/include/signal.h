/* signal.h with sets of signals: none can be blocked, because the system sends none to a thread. */
#ifndef WINDOWS_SIGNAL_H
#define WINDOWS_SIGNAL_H
#include_next <signal.h>
#include <errno.h>
#include <stddef.h>
#include <sys/types.h>

typedef unsigned char sigset_t;
#ifndef SIG_BLOCK
#define SIG_BLOCK 0
#define SIG_UNBLOCK 1
#define SIG_SETMASK 2
#endif
#define SIGHUP 1
#define SIGKILL 9
#define SIGBUS 7
#define SIGPIPE 13

static inline int sigfillset(sigset_t *set)
{
    *set = 0;
    return 0;
}
static inline int sigemptyset(sigset_t *set)
{
    *set = 0;
    return 0;
}
#define SA_RESTART 1
#define SA_RESETHAND 2 /* always */
struct sigaction {
    void (*sa_handler)(int number);
    sigset_t sa_mask;
    int sa_flags;
};
typedef struct stack_t {
    void *ss_sp;
    size_t ss_size;
    int ss_flags;
} stack_t;
static inline int sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    (void)before;
    return action == NULL || signal(number, action->sa_handler) != SIG_ERR ? 0 : -1;
}
#define pthread_sigmask(how, set, before) ((void)(how), (void)(set), (void)(before), 0)
#endif
