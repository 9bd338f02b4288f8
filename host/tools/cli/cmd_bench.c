/* inlay bench: times a model. */
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/sweep.h"
#include "timing/callers.h"
#include "inlay/check.h"
#include <stdlib.h>

static const char doc_bench[] =
    "Times MODEL: creating the session, the first run, and as many further runs as fit in the given seconds.\v"
    "Inputs without a value are random; the same --seed gives the same values. peak_mb is the peak memory of the "
    "process in MiB. With --grow every run has new sizes; the number of runs is 64 or that of --runs, regardless of "
    "--seconds and --warmup. With --callers, that many threads run one session concurrently, each with --intra-threads "
    "threads; rate counts the runs of all threads together.\n\n"
    "--rate and --deadline-ms make requests at fixed times, which do not wait for each other, and count the runs that "
    "end "
    "later than MS after their request. A package with --ladder runs the most exact variant that is expected to end in "
    "time; the result lists how often each ran.\n\n"
    "--sweep times all combinations of settings and reports the one with the most items a second whose p95 is within "
    "--latency-ms. A range is NAME=FIRST..LAST (powers of two and both ends; threads one by one up to 8, N is the "
    "number of processors), FIRST..LAST+STEP, or N/N/N. NAME is a dimension of the model (batch: the first axis of the "
    "first input), threads or callers; an item is one element along the first dimension. Each point takes --seconds "
    "(1) in two passes; a repeated measurement falls into the printed interval with 95 % probability. --energy "
    "measures joules with powercap or hwmon, or reads them from the output of COMMAND.\n\n"
    "Examples:\n"
    "  inlay bench model.onnx\n"
    "  inlay bench model.onnx --callers 4 --intra-threads 1\n"
    "  inlay bench model.pkg --ladder all --deadline-ms 5 --rate 200\n"
    "  inlay bench decoder.onnx --grow past=16+1 --grow total=17+1\n"
    "  inlay bench model.onnx --sweep batch=1..64,threads=1..4\n"
    "  inlay bench model.onnx --sweep N=8..64+8 --latency-ms 50 --html s.html\n"
    "  inlay bench model.onnx --energy\n";

enum { MAX_RUNS = 1000000, GROWN_RUNS = 64, MAX_CALLERS = 1024 };

typedef struct bench_args {
    struct feed feed;
    struct grow grow;
    const char *model;
    double seconds; /* negative: the default */
    size_t warmup;
    size_t max_runs; /* 0 = no limit */
    bool record;
    uint32_t callers;
    double interval_ms;
    double rate, deadline_ms; /* 0 = none */
    sweep_args sweep;         /* axis_count 0 = one measurement */
    bool energy;
    const char *energy_command;
    struct energy meter;
} bench_args;

typedef struct bench_result {
    double create_ms, first_ms;
    struct calls calls; /* owns its array of times */
    uint32_t recorded;  /* number of kernels */
    double joules;      /* per run; negative = unknown */
    inlay_plan_info plan;
} bench_result;

static void check_sweep(const bench_args *args, struct argp_state *state)
{
    const sweep_args *s = &args->sweep;

    if (s->axis_count == 0 && (s->latency_ms > 0 || s->csv != NULL || s->html != NULL))
        cli_refuse(state, CLI_USAGE, "--latency-ms, --csv and --html require --sweep");
    if (s->axis_count > 0 && (args->grow.count > 0 || args->callers > 1 || args->interval_ms > 0 || args->rate > 0 ||
                              args->deadline_ms > 0 || args->record || args->max_runs > 0))
        cli_refuse(state, CLI_USAGE,
                   "--sweep cannot be combined with --grow, --callers, --interval, --rate, --deadline-ms, --record or "
                   "--runs");
}

static error_t take_energy(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    bench_args *args = field;

    (void)option;
    (void)state;
    args->energy = true;
    args->energy_command = arg;
    return 0;
}

static const cli_option options_of_bench[] = {
    FEED_OPTIONS(bench_args, feed),
    { "seconds", "S", "Time runs for S seconds (default: 3)", CLI_NUMBER(bench_args, seconds, 0, 1e6) },
    { "warmup", "N", "Runs before timing, beyond the first (default: 2)", CLI_NUMBER(bench_args, warmup, 0, 1e9) },
    { "runs", "N", "Stop after N timed runs\v(default: no limit; 64 with --grow)",
      CLI_NUMBER(bench_args, max_runs, 1, MAX_RUNS) },
    { "callers", "N", "Run the session from N threads at once (default: 1)",
      CLI_NUMBER(bench_args, callers, 1, MAX_CALLERS) },
    { "interval", "MS", "Sleep MS milliseconds before each run (default: 0)",
      CLI_NUMBER(bench_args, interval_ms, 0, 1e6) },
    { "rate", "N", "Make N requests a second\v, at fixed times; a time includes the wait for a free caller",
      CLI_NUMBER(bench_args, rate, 0.001, 1e6) },
    { "deadline-ms", "MS", "Count runs that end later than MS after their request\v(--ladder: choose variants by it)",
      CLI_NUMBER(bench_args, deadline_ms, 0.001, 1e9) },
    GROW_OPTION(bench_args, grow),
    { "sweep", "NAME=RANGE,...", "Time all these settings and report the best",
      CLI_CALL(sweep_parse, bench_args, sweep) },
    { "latency-ms", "MS", "With --sweep: the p95 of the best is at most MS",
      CLI_NUMBER(bench_args, sweep.latency_ms, 0, 1e9) },
    { "csv", "FILE", "With --sweep: write a table\vfor spreadsheets; - is standard output",
      CLI_WRITE(bench_args, sweep.csv) },
    { "html", "FILE", "With --sweep: write an HTML page with curves", CLI_WRITE(bench_args, sweep.html) },
    { "energy", "COMMAND", "Measure joules with counters, or with a command\vthat prints them",
      CLI_CALL_ALL(take_energy), .flags = OPTION_ARG_OPTIONAL },
    { "record", NULL, "Save the time of each kernel, as tune does\v(measured in a few more runs)",
      CLI_SET(bench_args, record) },
    CLI_MODEL(bench_args, model),
    { 0 },
};

static bool finish(void *user, struct argp_state *state)
{
    bench_args *args = user;

    if (args->seconds >= 0)
        args->sweep.seconds = args->seconds;
    else
        args->seconds = 3;
    if (args->grow.count > 0 && (args->callers > 1 || args->interval_ms > 0 || args->rate > 0 || args->deadline_ms > 0))
        cli_refuse(state, CLI_USAGE, "--grow cannot be combined with --callers, --interval, --rate or --deadline-ms");
    if (args->rate > 0 && args->interval_ms > 0)
        cli_refuse(state, CLI_USAGE, "--rate cannot be combined with --interval");
    check_sweep(args, state);
    return true;
}

/* Runs that all have different sizes. The time to create the inputs is not counted. */
struct growing {
    const bench_args *args;
    const inlay_session *session;
    const first_run *first;
    const inlay_run_options *options;
    struct calls *out;
    uint64_t step;
};

static inlay_status run_grown(void *subject, double *out_ms, inlay_diag *diag)
{
    struct growing *growing = subject;
    inlay_status status;
    double cpu;

    INLAY_TRY(grow_bind(&growing->args->grow, ++growing->step, growing->first->inputs, growing->session,
                        growing->first->context, diag));
    cpu = clock_cpu_ms();
    INLAY_TRY(timing_run(growing->first->context, growing->options, out_ms, diag));
    growing->out->elapsed_ms += *out_ms;
    growing->out->cpu_ms += clock_cpu_ms() - cpu;
done:
    return status;
}

static inlay_status time_grown(struct growing *growing, inlay_diag *diag)
{
    const size_t runs = growing->args->max_runs > 0 ? growing->args->max_runs : GROWN_RUNS;
    const timing_plan plan = { .least = runs, .most = runs, .progress = cli_progress, .what = "timing" };
    void *subject = growing;
    const inlay_status status = timing_rounds(&plan, run_grown, &subject, 1, &growing->out->times, diag);

    growing->out->cpu_ms /= (double)runs;
    INLAY_CHECK(runs > 0);
    timing_sort(&growing->out->times);
    return status;
}

/* Times each kernel in a few more runs and saves the times. */
static inlay_status record(inlay_context *context, const inlay_run_options *options, bench_result *result,
                           inlay_diag *diag)
{
    static const timing_plan plan = { .seconds = 2, .least = 5, .most = 64 };
    run_times times = { 0 };
    inlay_status status;

    INLAY_TRY(inlay_context_measure(context, 1, diag));
    INLAY_TRY(timing_context(&plan, context, options, &times, diag));
    INLAY_TRY(inlay_context_record(context, &result->recorded, diag));
done:
    free(times.ms);
    return status;
}

static inlay_status bench(bench_args *args, cli_common *common, bench_result *result, inlay_diag *diag)
{
    const inlay_run_options options = { .struct_size = sizeof options, .cancel = cli_cancel() };
    const struct callers how = { .count = args->callers,
                                 .seconds = args->seconds,
                                 .interval_ms = args->interval_ms,
                                 .rate = args->rate,
                                 .deadline_ms = args->deadline_ms,
                                 .warmup = args->warmup,
                                 .most = args->max_runs > 0 ? args->max_runs : MAX_RUNS,
                                 .options = &options,
                                 .progress = cli_progress };
    inlay_session *session = NULL;
    first_run first = { 0 };
    struct growing growth = { .args = args, .first = &first, .options = &options, .out = &result->calls };
    double start = clock_ms();
    inlay_status status;

    INLAY_TRY(cli_open(common, args->model, &session, diag));
    result->create_ms = clock_ms() - start;
    growth.session = session;
    INLAY_TRY(first_run_make(&args->feed, &args->grow, common, session, &options, &first, diag));
    result->first_ms = first.ms;
    if (args->energy)
        args->energy = energy_open(&args->meter, "/sys/class", args->energy_command);
    INLAY_TRY(args->grow.count > 0 ? time_grown(&growth, diag)
                                   : callers_run(&how, session, first.inputs, first.context, &result->calls, diag));
    if (args->energy && energy_read(&args->meter) >= 0)
        result->joules = args->meter.joules / (double)(result->calls.times.count +
                                                       (args->grow.count > 0 ? 0 : args->warmup * args->callers));
    result->plan = (inlay_plan_info){ .struct_size = sizeof result->plan };
    (void)inlay_context_plan(first.context, &result->plan);
    if (args->record)
        INLAY_TRY(record(first.context, &options, result, diag));
done:
    cli_progress_clear();
    first_run_deinit(&first, session);
    inlay_session_destroy(session);
    return status;
}

static json_t *with_energy(const bench_args *args, const bench_result *result, json_t *json)
{
    if (result->joules >= 0)
        (void)json_object_set_new(json, "joules_per_run", json_real(result->joules));
    else if (args->meter.why[0] != '\0')
        (void)json_object_set_new(json, "energy", json_pack("{s:s}", "not_available", args->meter.why));
    return json;
}

/* The runs that ended too late, and which variants of a package ran. */
static json_t *deadline_json(const bench_args *args, const struct calls *calls)
{
    json_t *variants = json_array();

    for (uint32_t i = 0; i < calls->variant_count && calls->variants[i].name != NULL; i++)
        (void)json_array_append_new(variants,
                                    json_pack("{s:s, s:f, s:I}", "name", calls->variants[i].name, "error",
                                              calls->variants[i].error, "runs", (json_int_t)calls->variants[i].count));
    return json_pack("{s:f, s:I, s:o}", "deadline_ms", args->deadline_ms, "late", (json_int_t)calls->late, "variants",
                     variants);
}

static void print_deadline(const bench_args *args, const struct calls *calls)
{
    const double percent = 100 / (double)calls->times.count;

    (void)printf("late    %10zu runs, %.4g %% of %zu, after %g ms\n", calls->late, (double)calls->late * percent,
                 calls->times.count, args->deadline_ms);
    for (uint32_t i = 0; i < calls->variant_count && calls->variants[i].name != NULL; i++)
        (void)printf("variant %10s    %.4g %% of the runs, error %.2g\n", calls->variants[i].name,
                     (double)calls->variants[i].count * percent, calls->variants[i].error);
}

static int print_result(const bench_args *args, const cli_common *common, const bench_result *result)
{
    const struct calls *calls = &result->calls;
    double median = timing_quantile(&calls->times, 0.5), p95 = timing_quantile(&calls->times, 0.95);
    double p99 = timing_quantile(&calls->times, 0.99), rate = (double)calls->times.count / calls->elapsed_ms * 1e3;

    if (common->json) {
        json_t *json = with_energy(
            args, result,
            json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:f, s:I, s:I, s:I, s:I, "
                      "s:I, s:I, s:f}",
                      "model", cli_text(args->model), "create_ms", result->create_ms, "first_ms", result->first_ms,
                      "median_ms", median, "min_ms", calls->times.ms[0], "p95_ms", p95, "p99_ms", p99, "cpu_ms",
                      calls->cpu_ms, "predicted_ms", result->plan.predicted_ns * 1e-6, "runs",
                      (json_int_t)calls->times.count, "peak_mb", timing_peak_mb(), "slab_bytes",
                      (json_int_t)result->plan.slab_bytes, "lower_bound_bytes",
                      (json_int_t)result->plan.lower_bound_bytes, "constant_bytes",
                      (json_int_t)result->plan.constant_bytes, "steps", (json_int_t)result->plan.step_count, "recorded",
                      (json_int_t)result->recorded, "callers", (json_int_t)args->callers, "runs_per_s", rate));

        if (args->deadline_ms > 0)
            (void)json_object_set_new(json, "deadline", deadline_json(args, calls));
        return cli_print_json(common, json, CLI_OK);
    }
    (void)printf("create  %10.1f ms\nfirst   %10.3f ms\n", result->create_ms, result->first_ms);
    (void)printf("median  %10.4f ms   (%zu runs)\nmin     %10.4f ms\np95     %10.4f ms\np99     %10.4f ms\n", median,
                 calls->times.count, calls->times.ms[0], p95, p99);
    (void)printf("rate    %10.1f runs a second%s\n", rate, args->callers > 1 ? ", all callers together" : "");
    if (args->deadline_ms > 0)
        print_deadline(args, calls);
    (void)printf("cpu     %10.4f ms   per run, all threads together\n", calls->cpu_ms);
    (void)printf("expected%10.4f ms   from known costs; inlay tune improves them\n", result->plan.predicted_ns * 1e-6);
    (void)printf("memory  %10.1f MiB  peak of the process\n", timing_peak_mb());
    (void)printf("        %10.3f MiB  planned for intermediate values (lower bound %.3f), %.3f MiB of weights\n",
                 (double)result->plan.slab_bytes / 1048576, (double)result->plan.lower_bound_bytes / 1048576,
                 (double)result->plan.constant_bytes / 1048576);
    if (result->joules >= 0)
        (void)printf("energy  %10.4g J     per run, whole machine, measured with %s\n", result->joules,
                     args->meter.source);
    else if (args->meter.why[0] != '\0')
        (void)printf("energy  not available: %s\n", args->meter.why);
    if (args->record)
        (void)printf("saved   %10u kernel times\n", result->recorded);
    return CLI_OK;
}

static int sweep_all(bench_args *args, cli_common *common, inlay_diag *diag)
{
    static struct sweep sweep;
    int code = CLI_OK;
    inlay_status status;

    sweep.args = &args->sweep;
    args->sweep.model = args->model;
    args->sweep.feed = &args->feed;
    args->sweep.warmup = args->warmup;
    if (args->energy) {
        (void)energy_open(&args->meter, "/sys/class", args->energy_command);
        args->sweep.energy = &args->meter;
    }
    INLAY_TRY(sweep_run(&sweep, common, diag));
    INLAY_TRY(sweep_report(&sweep, common, &code, diag));
done:
    return status == INLAY_OK ? code : cli_fail(common, diag);
}

int cmd_bench(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_bench, options_of_bench, finish };
    static bench_args args = { .seconds = -1, .warmup = 2, .callers = 1, .sweep.seconds = 1 };
    bench_result result = { .joules = -1 };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    int code;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    if (args.sweep.axis_count > 0)
        code = sweep_all(&args, &common, &diag);
    else if (bench(&args, &common, &result, &diag) == INLAY_OK)
        code = print_result(&args, &common, &result);
    else
        code = cli_fail(&common, &diag);
    calls_deinit(&result.calls);
    feed_deinit(&args.feed);
    grow_deinit(&args.grow);
    cli_common_deinit(&common);
    return code;
}
