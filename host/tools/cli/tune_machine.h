/* cli/tune_machine.h - inlay tune --machine. */
#ifndef CLI_TUNE_MACHINE_H
#define CLI_TUNE_MACHINE_H
#include "cli/cli.h"

enum { TUNE_THREADS = 16 };

typedef struct tune_machine_args {
    bool wanted, record;
    uint32_t threads[TUNE_THREADS];
    inlay_calibrate_options options;
} tune_machine_args;

/* The option --threads, for a field of that type. */
error_t tune_take_threads(const cli_option *option, void *field, char *list, struct argp_state *state);
/* Measures and prints; returns the exit code. */
int tune_machine(tune_machine_args *args, cli_common *common);
#endif
