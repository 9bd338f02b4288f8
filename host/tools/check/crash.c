/* Fatal signals in the child: where it happened, in words, left where the parent can read them. */
#include "check/check.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { RANGES = 256, STACK_BYTES = 64 * 1024 };

/* Memory that must not be touched, and what it lies behind. */
struct range {
    uintptr_t from, to;
    const char *what;
};

static check_beacon *watched;
static struct range ranges[RANGES]; /* the handler reads them without the lock: whoever held it is not coming back */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char handler_stack[STACK_BYTES];

/* Without stdio, which is not to be trusted any more. */
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
    char *text = watched->crash;
    const size_t room = sizeof watched->crash;

    text[0] = '\0';
    if (signal == SIGABRT) {
        add_text(text, room, "it aborted");
        return;
    }
    if (signal == SIGFPE) {
        add_text(text, room, "a division by zero, or an integer out of range");
        return;
    }
    for (uint32_t i = 0; i < RANGES; i++) {
        if (ranges[i].what == NULL || address < ranges[i].from || address >= ranges[i].to)
            continue;
        add_text(text, room, "it touched memory ");
        add_text(text, room, ranges[i].what);
        add_text(text, room, " (byte ");
        add_number(text, room, address - ranges[i].from, 10);
        add_text(text, room, " of a forbidden page)");
        return;
    }
    add_text(text, room, "at address 0x");
    add_number(text, room, address, 16);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)context;
    describe(signal, (uintptr_t)info->si_addr);
    watched->signal = signal;
    _exit(99);
}

void crash_watch(check_beacon *beacon)
{
    static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };
    const stack_t stack = { .ss_sp = handler_stack, .ss_size = sizeof handler_stack };
    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK };

    watched = beacon;
    (void)sigaltstack(&stack, NULL); /* so that a stack that ran out has a handler too */
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        (void)sigaction(signals[i], &action, NULL);
}

void crash_name_range(const void *from, size_t bytes, const char *what)
{
    uint32_t i = 0;

    (void)pthread_mutex_lock(&lock);
    while (i < RANGES && ranges[i].what != NULL)
        i++;
    if (i < RANGES)
        ranges[i] = (struct range){ (uintptr_t)from, (uintptr_t)from + bytes, what };
    (void)pthread_mutex_unlock(&lock);
}

void crash_forget_range(const void *from)
{
    (void)pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < RANGES; i++)
        if (ranges[i].what != NULL && ranges[i].from == (uintptr_t)from)
            ranges[i].what = NULL;
    (void)pthread_mutex_unlock(&lock);
}
