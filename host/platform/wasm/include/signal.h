/* signal.h with the sets of signals that wasi-libc lacks: no signal can be blocked, because none arrives. */
#ifndef WASM_SIGNAL_H
#define WASM_SIGNAL_H
#include_next <signal.h>

typedef unsigned char sigset_t;
#define SIG_BLOCK 0
#define SIG_SETMASK 2

static inline int sigfillset(sigset_t *set)
{
    *set = 0;
    return 0;
}
static inline int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    (void)how, (void)set, (void)before;
    return 0;
}
#endif
