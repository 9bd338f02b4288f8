/* inlay calibrate: the machine profile. */
#include "cli/cli.h"
#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Times operators on every provider, and copies to and from every device, and writes the results to "
    "costs/machine.json in the cache folder. Later sessions choose providers by these costs.\v"
    "The file is for this machine and these builds of the plugins. Takes about half a minute for each provider and "
    "number of threads, and never much more than --budget-s; Ctrl-C leaves the file as it was.\n\n"
    "Examples:\n"
    "  inlay calibrate\n"
    "  inlay calibrate --threads 1,4 --providers reference\n"
    "  inlay calibrate --quick --json\n"
    "  inlay calibrate --threads 1 --budget-s 20\n";

enum { KEY_THREADS = 0x4000, KEY_QUICK, KEY_BUDGET, MAX_THREADS = 16 };
static const struct argp_option flags[] = {
    { "threads", KEY_THREADS, "LIST", 0, "Threads of a run to measure with, comma-separated (default: 1 and all)", 0 },
    { "quick", KEY_QUICK, NULL, 0, "Fewer runs of each kernel: faster, and less exact on a busy machine", 0 },
    { "budget-s", KEY_BUDGET, "S", 0,
      "Stop after S seconds, with fewer kernels timed (default: 60 for each provider and number of threads; a quarter "
      "with --quick)",
      0 },
    { 0 },
};

typedef struct calibrate_args {
    uint32_t threads[MAX_THREADS];
    inlay_calibrate_options what;
} calibrate_args;

static void read_threads(calibrate_args *args, const char *list, struct argp_state *state)
{
    char *copy = strdup(list), *next = NULL;

    args->what.thread_count = 0;
    for (char *t = copy == NULL ? NULL : strtok_r(copy, ",", &next); t != NULL; t = strtok_r(NULL, ",", &next)) {
        if (args->what.thread_count == MAX_THREADS)
            argp_failure(state, CLI_USAGE, 0, "--threads %s: more than %d numbers", list, MAX_THREADS);
        args->threads[args->what.thread_count++] = (uint32_t)cli_number(state, "--threads", t, 1, 4096);
    }
    free(copy);
    args->what.threads = args->threads;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    calibrate_args *args = state->input;

    switch (key) {
    case KEY_THREADS:
        read_threads(args, arg, state);
        return 0;
    case KEY_QUICK:
        args->what.quick = 1;
        return 0;
    case KEY_BUDGET:
        args->what.budget_s = cli_number(state, "--budget-s", arg, 0.001, 1e6);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s': calibrate takes no arguments but flags", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int print_result(const cli_common *common, const inlay_calibrate_result *r)
{
    cli_progress_clear();
    if (common->json)
        return cli_print_json(common,
                              json_pack("{s:s, s:i, s:i, s:i, s:i, s:f, s:f}", "path", r->path, "providers",
                                        (int)r->provider_count, "kernels", (int)r->kernel_count, "lines",
                                        (int)r->line_count, "links", (int)r->link_count, "median_error",
                                        r->median_error, "seconds", r->seconds),
                              CLI_OK);
    (void)printf("%u kernels of %u provider%s timed in %.1f s, %u copy links\n", r->kernel_count, r->provider_count,
                 r->provider_count == 1 ? "" : "s", r->seconds, r->link_count);
    (void)printf("%u classes of kernels, the median one within a factor of %.2f\nwritten to %s\n", r->line_count,
                 r->median_error, r->path);
    return CLI_OK;
}

int cmd_calibrate(int argc, char **argv)
{
    static const struct argp argp = { flags, parse, NULL, doc, NULL, NULL, NULL };
    calibrate_args args = { .what = { .struct_size = sizeof args.what } };
    inlay_calibrate_result result = { .struct_size = sizeof result };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    int code;

    cli_parse(&argp, true, argc, argv, &common, &args);
    cli_attach(&common);
    code = inlay_calibrate(common.options, &args.what, &result, &diag) == INLAY_OK ? print_result(&common, &result)
                                                                                   : cli_fail(&common, &diag);
    cli_common_deinit(&common);
    return code;
}
