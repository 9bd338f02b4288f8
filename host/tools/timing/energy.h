/* timing/energy.h - energy in joules, from counters of the machine or from a command. */
#ifndef TIMING_ENERGY_H
#define TIMING_ENERGY_H
#include <stdbool.h>
#include <stdint.h>

enum { ENERGY_MAX_COUNTERS = 16 };

/* Counters in microjoules that only increase, or wrap at `range`. */
struct energy {
    const char *command; /* prints the total joules; NULL: the counters below */
    char paths[ENERGY_MAX_COUNTERS][256];
    uint64_t range[ENERGY_MAX_COUNTERS]; /* 0 = does not wrap */
    uint64_t last[ENERGY_MAX_COUNTERS];
    uint32_t count;
    double joules;   /* since energy_open(), as of the last energy_read() */
    double first;    /* first value of the command */
    char source[64]; /* "powercap", "hwmon", "command" */
    char why[400];   /* reason of a failure */
};

/* Finds powercap's packages in sys_class ("/sys/class"), or else hwmon's energy sensors; or uses the command. false:
 * energy->why has the reason. */
bool energy_open(struct energy *energy, const char *sys_class, const char *command);
/* Joules since energy_open(); negative if they cannot be read any more, with the reason in energy->why. */
double energy_read(struct energy *energy);
#endif
