#include "timing/energy.h"
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static bool read_number(const char *path, uint64_t *out)
{
    FILE *f = fopen(path, "re");
    char line[64] = "", *end;
    bool ok;

    if (f == NULL)
        return false;
    errno = EIO;
    ok = fgets(line, sizeof line, f) != NULL;
    (void)fclose(f);
    if (!ok)
        return false;
    *out = strtoull(line, &end, 10);
    return end != line;
}

/* What the command prints. */
static bool run_command(struct energy *e, double *out)
{
    char line[128] = "", *end = NULL;
    FILE *f = popen(e->command, "re");
    int code = -1;

    if (f != NULL) {
        if (fgets(line, sizeof line, f) == NULL)
            line[0] = '\0';
        code = pclose(f);
    }
    *out = strtod(line, &end);
    if (code == 0 && end != line)
        return true;
    (void)snprintf(e->why, sizeof e->why, "the command '%.200s' did not print a number of joules", e->command);
    return false;
}

/* Counters that fit the pattern below the folder. Says why when one is there and can't be read. */
static void find_counters(struct energy *e, const char *sys_class, const char *pattern, const char *source)
{
    char path[512];
    glob_t found;

    (void)snprintf(path, sizeof path, "%.200s/%s", sys_class, pattern);
    if (glob(path, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc && e->count < ENERGY_MOST; i++) {
        const char *name = found.gl_pathv[i];
        char range[300];

        if (strlen(name) >= sizeof e->paths[0])
            continue;
        if (!read_number(name, &e->last[e->count])) {
            (void)snprintf(e->why, sizeof e->why, "%.200s: %s", name, strerror(errno));
            continue;
        }
        (void)strcpy(e->paths[e->count], name);
        (void)snprintf(range, sizeof range, "%.*s/max_energy_range_uj", (int)(strrchr(name, '/') - name), name);
        if (!read_number(range, &e->range[e->count]))
            e->range[e->count] = 0;
        e->count++;
        (void)snprintf(e->source, sizeof e->source, "%s", source);
    }
    globfree(&found);
}

bool energy_open(struct energy *e, const char *sys_class, const char *command)
{
    *e = (struct energy){ .command = command };
    if (command != NULL) {
        (void)strcpy(e->source, "command");
        return run_command(e, &e->first);
    }
    /* One colon: packages, not their parts, which would count twice. */
    find_counters(e, sys_class, "powercap/intel-rapl:[0-9]/energy_uj", "powercap");
    if (e->count == 0)
        find_counters(e, sys_class, "hwmon/hwmon*/energy*_input", "hwmon");
    if (e->count == 0 && e->why[0] == '\0')
        (void)snprintf(e->why, sizeof e->why,
                       "%.150s has neither powercap/intel-rapl:0 nor a hwmon with energy*_input; "
                       "--energy=COMMAND takes a command that prints joules",
                       sys_class);
    return e->count > 0;
}

double energy_read(struct energy *e)
{
    double now;

    if (e->command != NULL) {
        e->joules = run_command(e, &now) ? now - e->first : -1;
        return e->joules;
    }
    if (e->count == 0)
        return -1;
    for (uint32_t i = 0; i < e->count; i++) {
        uint64_t micro;

        if (!read_number(e->paths[i], &micro)) {
            (void)snprintf(e->why, sizeof e->why, "%.200s: %s", e->paths[i], strerror(errno));
            return -1;
        }
        e->joules += (double)(micro >= e->last[i] ? micro - e->last[i] : micro + e->range[i] - e->last[i]) * 1e-6;
        e->last[i] = micro;
    }
    return e->joules;
}
