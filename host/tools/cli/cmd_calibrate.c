/* inlay calibrate: measures the machine profile. */
#include "cli/cli.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Times operators on every provider, and copies to and from every device, and writes the results to "
    "costs/machine.json in the cache folder. Later sessions choose providers by these costs.\v"
    "The file is valid for this machine and these builds of the plugins. Calibration takes about half a minute for "
    "each provider and number of threads, and not much more than --budget-s; Ctrl-C leaves the file unchanged.\n\n"
    "Examples:\n"
    "  inlay calibrate\n"
    "  inlay calibrate --threads 1,4 --providers reference\n"
    "  inlay calibrate --quick --json\n"
    "  inlay calibrate --threads 1 --budget-s 20\n";

enum { MAX_THREADS = 16 };

typedef struct calibrate_args {
    uint32_t threads[MAX_THREADS];
    inlay_calibrate_options options;
} calibrate_args;

static error_t take_threads(const cli_option *option, void *field, char *list, struct argp_state *state)
{
    calibrate_args *args = field;
    char *copy = strdup(list), *next = NULL;

    (void)option;
    args->options.thread_count = 0;
    for (char *text = copy == NULL ? NULL : strtok_r(copy, ",", &next); text != NULL;
         text = strtok_r(NULL, ",", &next)) {
        if (args->options.thread_count == MAX_THREADS)
            argp_failure(state, CLI_USAGE, 0, "--threads %s: more than %d numbers", list, MAX_THREADS);
        args->threads[args->options.thread_count++] = (uint32_t)cli_number(state, "--threads", text, 1, 4096);
    }
    free(copy);
    args->options.threads = args->threads;
    return 0;
}

static const cli_option own_options[] = {
    { "threads", "LIST", "Numbers of threads to measure with, comma-separated (default: 1 and all)",
      CLI_CALL_ALL(take_threads) },
    { "quick", NULL, "Fewer runs of each kernel: faster, but less accurate on a busy machine",
      CLI_SET(calibrate_args, options.quick) },
    { "budget-s", "S",
      "Stop after S seconds and time fewer kernels (default: 60 for each provider and number of threads; a quarter "
      "with --quick)",
      CLI_NUMBER(calibrate_args, options.budget_s, 0.001, 1e6) },
    { 0 },
};

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

int cmd_calibrate(int argc, char **argv)
{
    static const cli_verb verb = { NULL, doc, own_options, NULL };
    calibrate_args args = { .options = { .struct_size = sizeof args.options } };
    inlay_calibrate_result result = { .struct_size = sizeof result };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    int code;

    cli_parse(&verb, true, argc, argv, &common, &args);
    cli_attach(&common);
    code = inlay_calibrate(common.options, &args.options, &result, &diag) == INLAY_OK ? print_result(&common, &result)
                                                                                      : cli_fail(&common, &diag);
    cli_common_deinit(&common);
    return code;
}
