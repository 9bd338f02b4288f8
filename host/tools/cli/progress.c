/* The progress bar, and the handlers of Ctrl-C and SIGTERM: state that exists once per process. */
#include "base/clock.h"
#include "cli/cli.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static uint32_t cancel;
static bool enabled;
static bool drawn;
static double drawn_at_ms;

static void on_interrupt(int signal_number)
{
    (void)signal_number; /* SA_RESETHAND: a second signal ends the process */
    __atomic_store_n(&cancel, 1, __ATOMIC_RELAXED);
}

void cli_catch_interrupt(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    action.sa_flags = (int)SA_RESETHAND;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL); /* sent by batch systems and service managers */
}

const uint32_t *cli_cancel(void)
{
    return &cancel;
}

bool cli_cancelled(void)
{
    return __atomic_load_n(&cancel, __ATOMIC_RELAXED) != 0;
}

void cli_progress_enable(bool on)
{
    const char *term = getenv("TERM");
    enabled = on && isatty(STDERR_FILENO) && term != NULL && strcmp(term, "dumb") != 0;
}

static int columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

int cli_progress(void *user, double fraction, const char *what)
{
    enum { BAR = 24 };
    char bar[BAR + 1];
    const double now_ms = clock_ms();
    int full, room;

    (void)user;
    if (!enabled)
        return cli_cancelled();
    if (drawn && fraction < 1 && now_ms - drawn_at_ms < 50)
        return cli_cancelled();
    fraction = fraction < 0 ? 0 : fraction > 1 ? 1 : fraction;
    full = (int)(fraction * BAR);
    for (int i = 0; i < BAR; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR] = '\0';
    room = columns() - BAR - 10;
    (void)fprintf(stderr, "\r[%s] %3d%% %.*s\033[K", bar, (int)(fraction * 100), room > 0 ? room : 0, what);
    (void)fflush(stderr);
    drawn = true;
    drawn_at_ms = now_ms;
    return cli_cancelled();
}

void cli_progress_clear(void)
{
    if (drawn)
        (void)fputs("\r\033[K", stderr);
    drawn = false;
}
