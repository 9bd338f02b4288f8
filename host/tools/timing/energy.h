/* timing/energy.h - joules: from the counters of the machine, or from a command of the user's. */
#ifndef TIMING_ENERGY_H
#define TIMING_ENERGY_H
#include <stdbool.h>
#include <stdint.h>

enum { ENERGY_MOST = 16 }; /* counters */

/* Counters in microjoules that only grow, or begin again behind `range`. */
struct energy {
    const char *command; /* prints joules so far; NULL: the counters below */
    char paths[ENERGY_MOST][256];
    uint64_t range[ENERGY_MOST]; /* 0 = does not begin again */
    uint64_t last[ENERGY_MOST];
    uint32_t count;
    double joules;   /* since energy_open(), as of the last energy_read() */
    double first;    /* of the command */
    char source[64]; /* "powercap", "hwmon", "command" */
    char why[400];   /* why there is none */
};

/* Looks below sys_class ("/sys/class") for powercap's packages, then for hwmon's energy sensors; or takes the command.
 * false: energy->why says why energy cannot be told here. */
bool energy_open(struct energy *energy, const char *sys_class, const char *command);
/* Joules since energy_open(); negative when they can't be read any longer, and energy->why says why. */
double energy_read(struct energy *energy);
#endif
