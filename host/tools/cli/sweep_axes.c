/* Parses the argument of --sweep. */
#include "cli/sweep.h"
#include "base/cpus.h"
#include "inlay/check.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DENSE_THREADS = 8 }; /* up to this number, threads are swept one by one */

static void fail_argument(struct argp_state *state, const char *text)
{
    cli_refuse(state, CLI_USAGE, "--sweep: '%.100s': expected NAME=FIRST..LAST, NAME=FIRST..LAST+STEP or NAME=N/N/N",
               text);
}

static int64_t read_number(struct argp_state *state, const char *whole, const char *from, const char **end)
{
    char *stop = NULL;
    long long value;

    errno = 0;
    value = strtoll(from, &stop, 10);
    if (stop == from || errno != 0 || value < 1 || value > INT32_MAX)
        fail_argument(state, whole);
    *end = stop;
    return value;
}

/* Inserts a value in ascending order; duplicates are ignored. */
static void add_value(struct argp_state *state, sweep_axis *axis, int64_t value)
{
    uint32_t at = axis->count;

    while (at > 0 && axis->values[at - 1] >= value)
        at--;
    if (at < axis->count && axis->values[at] == value)
        return;
    if (axis->count == SWEEP_POINTS)
        cli_refuse(state, CLI_USAGE, "--sweep: %s: more than %d values", axis->name, SWEEP_POINTS);
    INLAY_CHECK(at <= axis->count);
    memmove(axis->values + at + 1, axis->values + at, (axis->count - at) * sizeof *axis->values);
    axis->values[at] = value;
    axis->count++;
}

static void read_values(struct argp_state *state, sweep_axis *axis, const char *whole, const char *text)
{
    const char *at;
    int64_t first = read_number(state, whole, text, &at), last, step;

    if (strncmp(at, "..", 2) != 0) {
        add_value(state, axis, first);
        while (*at == '/')
            add_value(state, axis, read_number(state, whole, at + 1, &at));
        if (*at != '\0')
            fail_argument(state, whole);
        axis->dense = true;
        return;
    }
    if (axis->role != SWEEP_DIM && at[2] == 'N') { /* the number of processors that this process may use */
        last = cpus_allowed();
        at += 3;
    } else {
        last = read_number(state, whole, at + 2, &at);
    }
    step = *at == '+' ? read_number(state, whole, at + 1, &at) : 0;
    if (*at != '\0' || last < first)
        fail_argument(state, whole);
    axis->dense = step > 0 || (axis->role != SWEEP_DIM && last <= DENSE_THREADS);
    if (axis->dense && step == 0)
        step = 1;
    for (int64_t value = first; value<last; value = step> 0 ? value + step : value * 2)
        add_value(state, axis, value);
    add_value(state, axis, last);
}

error_t sweep_parse(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    sweep_args *args = field;
    char *rest = NULL;
    uint64_t points = 1;

    (void)option;
    for (char *one = strtok_r(arg, ",", &rest); one != NULL; one = strtok_r(NULL, ",", &rest)) {
        const size_t length = strcspn(one, "=");
        sweep_axis *axis = &args->axes[args->axis_count];

        if (args->axis_count == SWEEP_AXES)
            cli_refuse(state, CLI_USAGE, "--sweep: at most %d names", SWEEP_AXES);
        if (one[length] == '\0' || length == 0 || length >= sizeof axis->name)
            fail_argument(state, one);
        *axis = (sweep_axis){ .role = SWEEP_DIM };
        memcpy(axis->name, one, length);
        for (uint32_t i = 0; i < args->axis_count; i++)
            if (strcmp(args->axes[i].name, axis->name) == 0)
                cli_refuse(state, CLI_USAGE, "--sweep: %s is given twice", axis->name);
        axis->role = strcmp(axis->name, "threads") == 0   ? SWEEP_THREADS
                     : strcmp(axis->name, "callers") == 0 ? SWEEP_CALLERS
                                                          : SWEEP_DIM;
        read_values(state, axis, one, one + length + 1);
        points *= axis->count;
        args->axis_count++;
    }
    if (args->axis_count == 0)
        fail_argument(state, "");
    if (points > SWEEP_POINTS)
        cli_refuse(state, CLI_USAGE, "--sweep: %llu points are too many; at most %d", (unsigned long long)points,
                   SWEEP_POINTS);
    return 0;
}
