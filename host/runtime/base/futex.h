/* base/futex.h - waiting for a word of this process's memory: futexes of Linux, WaitOnAddress() of Windows
 * (host/platform/windows/system.c). */
#ifndef BASE_FUTEX_H
#define BASE_FUTEX_H
#include <stdint.h>
#ifndef _WIN32
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* For loops that poll a word: leaves the core to its other hardware thread for a moment. */
static inline void futex_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* futex_sleep() sleeps while *word is `value`, and may return early; futex_wake() wakes one thread that sleeps on the
 * word. */
#ifdef _WIN32
void futex_sleep(const uint32_t *word, uint32_t value);
void futex_wake(const uint32_t *word);
#else
static inline void futex_sleep(const uint32_t *word, uint32_t value)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static inline void futex_wake(const uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
#endif
#endif
