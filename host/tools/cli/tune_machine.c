/* inlay tune --machine: the machine profile, from kernels of every kind. */
#include "cli/tune_machine.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

error_t tune_take_threads(const cli_option *option, void *field, char *list, struct argp_state *state)
{
    tune_machine_args *args = field;
    char *copy = strdup(list), *next = NULL;

    (void)option;
    args->options.thread_count = 0;
    for (char *text = copy == NULL ? NULL : strtok_r(copy, ",", &next); text != NULL;
         text = strtok_r(NULL, ",", &next)) {
        if (args->options.thread_count == TUNE_THREADS)
            cli_refuse(state, CLI_USAGE, "--threads %s: more than %d numbers", list, TUNE_THREADS);
        args->threads[args->options.thread_count++] = (uint32_t)cli_number(state, "--threads", text, 1, 4096);
    }
    free(copy);
    args->options.threads = args->threads;
    return 0;
}

static int print_result(const cli_common *common, const inlay_calibrate_result *result)
{
    INLAY_CHECK(result->path != NULL);
    cli_progress_clear();
    if (common->json)
        return cli_print_json(common,
                              json_pack("{s:s, s:i, s:i, s:i, s:i, s:f, s:f}", "path", result->path, "providers",
                                        (int)result->provider_count, "kernels", (int)result->kernel_count, "lines",
                                        (int)result->line_count, "links", (int)result->link_count, "median_error",
                                        result->median_error, "seconds", result->seconds),
                              CLI_OK);
    (void)printf("%u kernels of %u provider%s timed in %.1f s, %u copy links\n", result->kernel_count,
                 result->provider_count, result->provider_count == 1 ? "" : "s", result->seconds, result->link_count);
    (void)printf("%u kernel classes, median error factor %.2f\nwritten to %s\n", result->line_count,
                 result->median_error, result->path);
    return CLI_OK;
}

int tune_machine(tune_machine_args *args, cli_common *common)
{
    inlay_calibrate_result result = { .struct_size = sizeof result };
    inlay_diag diag = INLAY_DIAG_INIT;

    args->options.struct_size = sizeof args->options;
    cli_attach(common);
    return inlay_calibrate(common->options, &args->options, &result, &diag) == INLAY_OK ? print_result(common, &result)
                                                                                        : cli_fail(common, &diag);
}
