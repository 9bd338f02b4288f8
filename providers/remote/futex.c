#include "remote/shared.h"
#include "base/futex.h"
#include <errno.h>
#include <time.h>

void isolate_set_state(isolate_channel *channel, uint32_t state)
{
    const uint32_t old = __atomic_exchange_n(&channel->state, state, __ATOMIC_ACQ_REL);

    if ((old & ISOLATE_SLEEPS) != 0)
        (void)syscall(SYS_futex, &channel->state, FUTEX_WAKE, 1, NULL, NULL, 0);
}

uint32_t isolate_wait_state(isolate_channel *channel, uint32_t old, uint32_t spins, uint64_t limit_ns)
{
    const struct timespec limit = { .tv_sec = (time_t)(limit_ns / 1000000000u),
                                    .tv_nsec = (long)(limit_ns % 1000000000u) };
    uint32_t state = __atomic_load_n(&channel->state, __ATOMIC_ACQUIRE);

    for (uint32_t i = 0; i < spins && (state & ~(uint32_t)ISOLATE_SLEEPS) == old; i++) {
        futex_pause();
        state = __atomic_load_n(&channel->state, __ATOMIC_ACQUIRE);
    }
    while ((state & ~(uint32_t)ISOLATE_SLEEPS) == old) {
        long result;

        if (state == old && !__atomic_compare_exchange_n(&channel->state, &state, old | ISOLATE_SLEEPS, false,
                                                         __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            continue;
        result = syscall(SYS_futex, &channel->state, FUTEX_WAIT, old | ISOLATE_SLEEPS, limit_ns > 0 ? &limit : NULL,
                         NULL, 0);
        state = __atomic_load_n(&channel->state, __ATOMIC_ACQUIRE);
        if (result != 0 && errno == ETIMEDOUT)
            break;
    }
    return state & ~(uint32_t)ISOLATE_SLEEPS;
}
