/* base/futex.h - waiting for a word of this process's memory. */
#ifndef BASE_FUTEX_H
#define BASE_FUTEX_H
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* For loops that poll a word: leaves the core to its other hardware thread for a moment. */
static inline void futex_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Sleeps while *word is `value`. May return early. */
static inline void futex_sleep(const uint32_t *word, uint32_t value)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

/* Wakes one thread that sleeps on the word. */
static inline void futex_wake(const uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
#endif
