/* Describes fatal signals of the child in memory that the parent can read. */
#include "check/check.h"
#include "inlay/check.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { RANGES = 256, STACK_BYTES = 64 * 1024 };

/* Memory that must not be accessed. */
struct range {
    uintptr_t from, to;
    const char *description; /* NULL: unused entry */
};

static check_progress *progress;
/* The handler reads the ranges without the lock, because the thread that crashed may hold it. */
static struct range ranges[RANGES];
static uint32_t range_end; /* atomic: no entry from here on was ever used */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char handler_stack[STACK_BYTES], hold_stack[STACK_BYTES];

/* Appends without stdio, which is not safe in a signal handler. */
static void add_text(char *text, size_t room, const char *more)
{
    size_t used = strlen(text);

    while (*more != '\0' && used + 1 < room)
        text[used++] = *more++;
    text[used] = '\0';
}

static void add_number(char *text, size_t room, uint64_t number, uint32_t base)
{
    char digits[24];
    size_t at = sizeof digits;

    digits[--at] = '\0';
    do {
        digits[--at] = "0123456789abcdef"[number % base];
        number /= base;
    } while (number != 0);
    add_text(text, room, digits + at);
}

static void describe(int signal, uintptr_t address)
{
    char *text = progress->crash;
    const size_t room = sizeof progress->crash;

    text[0] = '\0';
    if (signal == SIGABRT) {
        add_text(text, room, "it aborted");
        return;
    }
    if (signal == SIGFPE) {
        add_text(text, room, "a division by zero, or an integer out of range");
        return;
    }
    for (uint32_t i = 0; i < __atomic_load_n(&range_end, __ATOMIC_ACQUIRE); i++) {
        if (ranges[i].description == NULL || address < ranges[i].from || address >= ranges[i].to)
            continue;
        add_text(text, room, "it touched memory ");
        add_text(text, room, ranges[i].description);
        add_text(text, room, " (byte ");
        add_number(text, room, address - ranges[i].from, 10);
        add_text(text, room, " of a forbidden page)");
        return;
    }
    add_text(text, room, "at address 0x");
    add_number(text, room, address, 16);
}

static struct crash_hold *held; /* atomic */

/* Stops the thread at its first access to the held memory. True: it may go on. */
static bool hold(uintptr_t address)
{
    static const struct timespec pause = { .tv_nsec = 1000000 };
    struct crash_hold *here = __atomic_load_n(&held, __ATOMIC_ACQUIRE);

    if (here == NULL || address < (uintptr_t)here->from || address - (uintptr_t)here->from >= here->bytes)
        return false;
    (void)mprotect(here->from, here->bytes, PROT_READ | PROT_WRITE);
    __atomic_store_n(&here->reached, 1, __ATOMIC_RELEASE);
    for (uint32_t ms = 0; __atomic_load_n(&here->released, __ATOMIC_ACQUIRE) == 0; ms++) {
        if (ms == here->patience_ms) {
            __atomic_store_n(&here->expired, 1, __ATOMIC_RELEASE);
            break;
        }
        (void)nanosleep(&pause, NULL);
    }
    return true;
}

/* Signal handlers of this thread run on [bytes, bytes + STACK_BYTES). previous: the former stack; may be NULL. */
static void use_stack(char *bytes, stack_t *previous)
{
    const stack_t stack = { .ss_sp = bytes, .ss_size = STACK_BYTES };

    (void)sigaltstack(&stack, previous);
}

void crash_hold_begin(struct crash_hold *here)
{
    use_stack(hold_stack, &here->signal_stack); /* the stack pointer of generated code may point to data */
    (void)mprotect(here->from, here->bytes, PROT_NONE);
    __atomic_store_n(&held, here, __ATOMIC_RELEASE);
}

void crash_hold_end(struct crash_hold *here)
{
    __atomic_store_n(&held, NULL, __ATOMIC_RELEASE);
    (void)mprotect(here->from, here->bytes, PROT_READ | PROT_WRITE);
    (void)sigaltstack(&here->signal_stack, NULL); /* AddressSanitizer unmaps the stack of a thread that ends */
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (signal == SIGSEGV && hold((uintptr_t)info->si_addr))
        return;
    describe(signal, (uintptr_t)info->si_addr);
    progress->signal = signal;
    _exit(99);
}

void crash_install_handlers(check_progress *shared)
{
    static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };
    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK };

    progress = shared;
    use_stack(handler_stack, NULL); /* for stack overflows */
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        (void)sigaction(signals[i], &action, NULL);
}

void crash_describe_range(const void *from, size_t bytes, const char *description)
{
    uint32_t i = 0;

    INLAY_CHECK(description != NULL);
    (void)pthread_mutex_lock(&lock);
    while (i < range_end && ranges[i].description != NULL)
        i++;
    if (i < RANGES)
        ranges[i] = (struct range){ (uintptr_t)from, (uintptr_t)from + bytes, description };
    if (i == range_end && i < RANGES)
        __atomic_store_n(&range_end, i + 1, __ATOMIC_RELEASE);
    (void)pthread_mutex_unlock(&lock);
}

void crash_forget_range(const void *from)
{
    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < range_end; i++)
        if (ranges[i].description != NULL && ranges[i].from == (uintptr_t)from)
            ranges[i].description = NULL;
    (void)pthread_mutex_unlock(&lock);
}
