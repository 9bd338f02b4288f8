/* inlay tune --machine: the machine profile, from kernels of every kind. */
#include "cli/tune_machine.h"
#include "base/core_kind.h"
#include "base/isa.h"
#include "inlay/check.h"
#include "inlay/note.h"
#include "measure/measure.h"
#include "partition/cost/cost_profile.h"
#include <math.h>
#include <stddef.h>
#include <time.h>

error_t tune_take_threads(const cli_option *option, void *field, char *list, struct argp_state *state)
{
    tune_machine_args *args = field;

    (void)option;
    args->options.thread_count = cli_whole_numbers(state, "--threads", list, 1, 4096, TUNE_THREADS, args->threads);
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

enum { RECORD_RUNS = 5, RECORD_RATES = sizeof(inlay_speed) / sizeof(double) - 1 };

/* Prints the row of core_kind.def for this CPU: the best of several measurements, and by how much they differ. */
static int print_row(const cli_common *common)
{
    inlay_speed runs[RECORD_RUNS], best;
    double memory[3] = { 0 }, one[3];
    double *member = &best.flops_baseline, spread = 0;
    const time_t now = time(NULL);
    measure_sweep sweep = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t id, extra;
    const char vendor = core_identify(&id);
    const uint32_t level = isa_of_cpu(&extra);
    char cpu[160], date[16];
    struct tm day;

    if (measure_sweep_init(&sweep, &diag) != INLAY_OK)
        return cli_fail(common, &diag);
    for (int run = 0; run < RECORD_RUNS; run++) {
        measure_speed(&sweep, &runs[run], one);
        memory[0] = fmax(memory[0], one[0]);
        memory[1] = fmax(memory[1], one[1]);
        memory[2] = fmax(memory[2], one[2]);
    }
    measure_sweep_deinit(&sweep);
    best = runs[0];
    for (int i = 0; i < RECORD_RATES; i++) {
        double least = member[i], most = member[i];

        for (int run = 1; run < RECORD_RUNS; run++) {
            least = fmin(least, (&runs[run].flops_baseline)[i]);
            most = fmax(most, (&runs[run].flops_baseline)[i]);
        }
        member[i] = &member[i] == &best.loop_ns ? least : most;
        spread = least > 0 ? fmax(spread, most / least - 1) : spread;
    }
    profile_cpu(cpu, sizeof cpu);
    (void)strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &day));
    (void)printf(
        "    /* %s, %s, best of %d runs, which differed by up to %.0f %% */\n"
        "    { \"NAME\", \"TITLE\", '%c', '%c', true, %u, %u, %u,\n"
        "      { %.0f, %.0f, %.0f }, { %.0f, %.0f, %.0f, %.0f }, { %.1f, %.1f, %.1f }, %.0f, { %.0f, %.0f }, { %.0f, "
        "%.0f } },\n",
        cpu, date, RECORD_RUNS, 100 * spread, core_kind_in_use()->architecture, vendor, id, level,
        extra & INLAY_ISA_AMX, best.flops_baseline, best.flops_v3, best.flops_v4, best.core_bytes, best.near_bytes,
        best.shared_bytes, memory[2], best.memory_bytes, memory[0], memory[1], best.loop_ns, best.tile_bytes,
        best.tile_bfloat16, (double)cost_near_bytes() / 1024, (double)cost_shared_bytes() / 1024);
    return CLI_OK;
}

int tune_machine(tune_machine_args *args, cli_common *common)
{
    inlay_calibrate_result result = { .struct_size = sizeof result };
    inlay_diag diag = INLAY_DIAG_INIT;

    args->options.struct_size = sizeof args->options;
    cli_attach(common);
    if (args->record)
        return print_row(common);
    return inlay_calibrate(common->options, &args->options, &result, &diag) == INLAY_OK ? print_result(common, &result)
                                                                                        : cli_fail(common, &diag);
}
