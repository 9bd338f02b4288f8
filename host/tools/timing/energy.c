#include "timing/energy.h"
#include "inlay/check.h"
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_number(const char *path, uint64_t *out)
{
    FILE *file = fopen(path, "re");
    char line[64] = "", *end;
    bool ok;

    if (file == NULL)
        return false;
    errno = EIO;
    ok = fgets(line, sizeof line, file) != NULL;
    (void)fclose(file);
    if (!ok)
        return false;
    *out = strtoull(line, &end, 10);
    return end != line;
}

/* Runs the command and parses its output. */
static bool run_command(struct energy *energy, double *out)
{
    char line[128] = "", *end = NULL;
    FILE *file = popen(energy->command, "re");
    int code = -1;

    if (file != NULL) {
        if (fgets(line, sizeof line, file) == NULL)
            line[0] = '\0';
        code = pclose(file);
    }
    *out = strtod(line, &end);
    if (code == 0 && end != line)
        return true;
    (void)snprintf(energy->why, sizeof energy->why, "the command '%.200s' did not print a number of joules",
                   energy->command);
    return false;
}

/* Adds the counters that match the pattern in the folder. Sets `why` for a counter that cannot be read. */
static void find_counters(struct energy *energy, const char *sys_class, const char *pattern, const char *source)
{
    char path[512];
    glob_t found;

    (void)snprintf(path, sizeof path, "%.200s/%s", sys_class, pattern);
    if (glob(path, 0, NULL, &found) != 0)
        return;
    if (found.gl_pathc > ENERGY_MAX_COUNTERS) /* the sum of some of them would be wrong */
        (void)snprintf(energy->why, sizeof energy->why, "%.200s has more than %d counters", path, ENERGY_MAX_COUNTERS);
    for (size_t i = 0; i < found.gl_pathc && found.gl_pathc <= ENERGY_MAX_COUNTERS; i++) {
        const char *name = found.gl_pathv[i];
        char range[300];

        if (strlen(name) >= sizeof energy->paths[0])
            continue;
        if (!read_number(name, &energy->last[energy->count])) {
            (void)snprintf(energy->why, sizeof energy->why, "%.200s: %s", name, strerror(errno));
            continue;
        }
        (void)strcpy(energy->paths[energy->count], name);
        (void)snprintf(range, sizeof range, "%.*s/max_energy_range_uj", (int)(strrchr(name, '/') - name), name);
        if (!read_number(range, &energy->range[energy->count]))
            energy->range[energy->count] = 0;
        energy->count++;
        (void)snprintf(energy->source, sizeof energy->source, "%s", source);
    }
    globfree(&found);
}

bool energy_open(struct energy *energy, const char *sys_class, const char *command)
{
    *energy = (struct energy){ .command = command };
    if (command != NULL) {
        (void)strcpy(energy->source, "command");
        return run_command(energy, &energy->first);
    }
    /* The pattern has one colon, so it finds packages but not their parts, which would be counted twice. */
    find_counters(energy, sys_class, "powercap/intel-rapl:[0-9]/energy_uj", "powercap");
    if (energy->count == 0)
        find_counters(energy, sys_class, "hwmon/hwmon*/energy*_input", "hwmon");
    if (energy->count == 0 && energy->why[0] == '\0')
        (void)snprintf(energy->why, sizeof energy->why,
                       "%.150s has neither powercap/intel-rapl:0 nor a hwmon with energy*_input; "
                       "--energy=COMMAND uses a command that prints joules",
                       sys_class);
    INLAY_CHECK(energy->count <= ENERGY_MAX_COUNTERS);
    return energy->count > 0;
}

double energy_read(struct energy *energy)
{
    double now;

    if (energy->command != NULL) {
        energy->joules = run_command(energy, &now) ? now - energy->first : -1;
        return energy->joules;
    }
    if (energy->count == 0)
        return -1;
    for (uint32_t i = 0; i < energy->count; i++) {
        uint64_t micro;

        if (!read_number(energy->paths[i], &micro)) {
            (void)snprintf(energy->why, sizeof energy->why, "%.200s: %s", energy->paths[i], strerror(errno));
            return -1;
        }
        energy->joules +=
            (double)(micro >= energy->last[i] ? micro - energy->last[i] : micro + energy->range[i] - energy->last[i]) *
            1e-6;
        energy->last[i] = micro;
    }
    return energy->joules;
}
