/* bench_deadline [--runs N] PROVIDER... - measures the delay after which a run with a deadline of 2 ms ends within a
 * matrix multiplication [40000, 512] x [512, 512], and the cost of checking the clock.
 *
 * Prints for runs that were stopped the median and the maximum of the wall-clock time, and the median of the CPU time
 * of all threads, which depends less on other load. Prints for complete runs the minimum CPU time without a deadline
 * and with a deadline that is never reached, alternately. */
#include "base/clock.h"
#include "inlay/inlay.h"
#include "onnx_bytes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 40000, DEPTH = 512, COLUMNS = 512, MOST_RUNS = 1000 };
static const uint64_t BUDGET_NS = 2000000, HOUR_NS = UINT64_C(3600000000000);
static int runs = 15;

static inlay_value *make(uint32_t rank, const int64_t *dims)
{
    inlay_value *value = NULL;

    if (inlay_value_create(INLAY_FLOAT, rank, dims, &value, NULL) == INLAY_OK)
        for (int64_t i = 0; i < inlay_value_count(value); i++)
            ((float *)inlay_value_data(value))[i] = (float)(i % 17) / 16 - 0.5f;
    return value;
}

struct run_times {
    double wall_ms, cpu_ms;
};

static double cpu_ms(void)
{
    struct timespec timespec;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &timespec);
    return 1e3 * (double)timespec.tv_sec + 1e-6 * (double)timespec.tv_nsec;
}

static struct run_times run(inlay_context *context, uint64_t budget_ns, inlay_status *out_status)
{
    const uint64_t begin = clock_ns();
    const double cpu = cpu_ms();
    const inlay_run_options how = { .struct_size = sizeof how, .timeout_ns = budget_ns };
    struct run_times run_times;

    *out_status = inlay_context_run(context, &how, NULL);
    run_times.wall_ms = (double)(clock_ns() - begin) * 1e-6;
    run_times.cpu_ms = cpu_ms() - cpu;
    return run_times;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static void report(const char *provider, const char *threads, inlay_context *context)
{
    static double late[MOST_RUNS], busy[MOST_RUNS];
    double plain = 0, watched = 0;
    inlay_status status;

    for (int i = 0; i < runs; i++) {
        double ms = run(context, 0, &status).cpu_ms;
        struct run_times run_times;

        plain = i == 0 || ms < plain ? ms : plain;
        ms = run(context, HOUR_NS, &status).cpu_ms;
        watched = i == 0 || ms < watched ? ms : watched;
        run_times = run(context, BUDGET_NS, &status);
        late[i] = run_times.wall_ms;
        busy[i] = run_times.cpu_ms;
    }
    qsort(late, (size_t)runs, sizeof *late, by_size);
    qsort(busy, (size_t)runs, sizeof *busy, by_size);
    (void)printf("%-10s %2s threads: %s after %7.2f ms (median of %d), maximum %7.2f, %7.2f ms of CPU; "
                 "complete run %8.2f ms of CPU, with deadline %8.2f (%+.2f %%)\n",
                 provider, threads, inlay_status_text(status), late[runs / 2], runs, late[runs - 1], busy[runs / 2],
                 plain, watched, 100 * (watched / plain - 1));
}

static int bench(const char *provider, const char *threads)
{
    static const int64_t a[] = { ROWS, DEPTH }, b[] = { DEPTH, COLUMNS }, y[] = { ROWS, COLUMNS };
    onnx_bytes bytes = { .count = 0 };
    static onnx_bytes file;
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;

    file.count = 0;
    onnx_input(&bytes, "a", INLAY_FLOAT, 2, a);
    onnx_input(&bytes, "b", INLAY_FLOAT, 2, b);
    onnx_node(&bytes, "MatMul", "", "a,b", "y");
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, y);
    if (onnx_file(&file, &bytes, 17, NULL) != 0 || inlay_options_create(&options, &diag) != INLAY_OK ||
        inlay_options_set(options, "providers", provider, &diag) != INLAY_OK ||
        inlay_options_set(options, "intra_threads", threads, &diag) != INLAY_OK ||
        inlay_session_create_from_bytes(file.data, file.count, options, &session, &diag) != INLAY_OK ||
        inlay_context_create(session, &context, &diag) != INLAY_OK) {
        (void)fprintf(stderr, "%s: %s\n", provider, diag.text);
        return 1;
    }
    for (uint32_t i = 0; i < 2; i++) {
        inlay_value *value = make(2, i == 0 ? a : b);

        if (value == NULL || inlay_context_set_input(context, i, value, &diag) != INLAY_OK)
            return 1;
        inlay_value_unref(value);
    }
    report(provider, threads, context);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    inlay_options_destroy(options);
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0, first = 1;

    if (argc > 2 && strcmp(argv[1], "--runs") == 0) {
        runs = atoi(argv[2]);
        runs = runs < 1 ? 1 : runs > MOST_RUNS ? MOST_RUNS : runs;
        first = 3;
    }
    for (int i = first; i < argc; i++)
        failed += bench(argv[i], "1") + bench(argv[i], "2");
    return failed > 0;
}
