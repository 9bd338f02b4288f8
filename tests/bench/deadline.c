/* How soon a run ends that has 2 ms, in the middle of a product [40000, 512] x [512, 512], and what a run takes that has
 * all the time: bench_deadline PROVIDER... */
#include "base/clock.h"
#include "inlay/inlay.h"
#include "onnx_bytes.h"
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 40000, DEPTH = 512, COLUMNS = 512, RUNS = 5 };
static const uint64_t BUDGET_NS = 2000000;

static inlay_value *make(uint32_t rank, const int64_t *dims)
{
    inlay_value *v = NULL;

    if (inlay_value_create(INLAY_FLOAT, rank, dims, &v, NULL) == INLAY_OK)
        for (int64_t i = 0; i < inlay_value_count(v); i++)
            ((float *)inlay_value_data(v))[i] = (float)(i % 17) / 16 - 0.5f;
    return v;
}

static double run_ms(inlay_context *c, uint64_t budget_ns, inlay_status *out_status)
{
    const uint64_t begin = clock_ns();
    const inlay_run_options how = { .struct_size = sizeof how, .timeout_ns = budget_ns };

    *out_status = inlay_context_run(c, &how, NULL);
    return (double)(clock_ns() - begin) * 1e-6;
}

static int bench(const char *provider, const char *threads)
{
    static const int64_t a[] = { ROWS, DEPTH }, b[] = { DEPTH, COLUMNS }, y[] = { ROWS, COLUMNS };
    onnx_bytes g = { .count = 0 };
    static onnx_bytes file;
    inlay_options *o = NULL;
    inlay_session *s = NULL;
    inlay_context *c = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    double whole = 0, late = 0, first;
    inlay_status status;

    file.count = 0;
    onnx_input(&g, "a", INLAY_FLOAT, 2, a);
    onnx_input(&g, "b", INLAY_FLOAT, 2, b);
    onnx_node(&g, "MatMul", "", "a,b", "y");
    onnx_output(&g, "y", INLAY_FLOAT, 2, y);
    if (onnx_file(&file, &g, 17, NULL) != 0 || inlay_options_create(&o, &diag) != INLAY_OK ||
        inlay_options_set(o, "providers", provider, &diag) != INLAY_OK ||
        inlay_options_set(o, "intra_threads", threads, &diag) != INLAY_OK ||
        inlay_session_create_from_bytes(file.data, file.count, o, &s, &diag) != INLAY_OK ||
        inlay_context_create(s, &c, &diag) != INLAY_OK) {
        (void)fprintf(stderr, "%s: %s\n", provider, diag.text);
        return 1;
    }
    for (uint32_t i = 0; i < 2; i++) {
        inlay_value *v = make(2, i == 0 ? a : b);

        if (v == NULL || inlay_context_set_input(c, i, v, &diag) != INLAY_OK)
            return 1;
        inlay_value_unref(v);
    }
    first = run_ms(c, BUDGET_NS, &status);
    (void)printf("%-10s %2s threads  %8.2f ms the first time (%s)", provider, threads, first, inlay_status_text(status));
    for (int i = 0; i < RUNS; i++) {
        double ms = run_ms(c, 0, &status);
        whole = i == 0 || ms < whole ? ms : whole;
        ms = run_ms(c, BUDGET_NS, &status);
        late = ms > late ? ms : late;
    }
    (void)printf("  %8.2f ms the latest of %d (%s)  %8.2f ms without a deadline\n", late, RUNS, inlay_status_text(status),
                 whole);
    inlay_context_destroy(c);
    inlay_session_destroy(s);
    inlay_options_destroy(o);
    return 0;
}

int main(int argc, char **argv)
{
    int failed = 0;

    for (int i = 1; i < argc; i++)
        failed += bench(argv[i], "1") + bench(argv[i], "2");
    return failed > 0;
}
