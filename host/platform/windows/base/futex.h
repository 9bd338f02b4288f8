/* base/futex.h over WaitOnAddress(), in place of the file for Linux; in system.c. */
#ifndef BASE_FUTEX_H
#define BASE_FUTEX_H
#include <stdint.h>

static inline void futex_pause(void)
{
    __builtin_ia32_pause();
}

void futex_sleep(const uint32_t *word, uint32_t value);
void futex_wake(const uint32_t *word);
#endif
