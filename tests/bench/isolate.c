/* bench_isolate [--seconds S] [--threads N] [--provider NAME] [MODEL] - the cost of option isolate: runs a model in two
 * sessions, one with the provider (cpu) in a separate process, alternately, and prints the minimum and the median of
 * both. Without MODEL: one Relu of 64 elements, whose run is the cost of a region.
 *
 * Other load on the machine affects both alike; compare the minima if there is much. Sizes that the model leaves open
 * are 1, and 224 for images. */
#include "base/clock.h"
#include "inlay/inlay.h"
#include "onnx_bytes.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 2000000, KINDS = 2 };

static int fail(const inlay_diag *diag)
{
    (void)fprintf(stderr, "bench_isolate: %s\n", diag->text);
    return 2;
}

static void relu_model(onnx_bytes *file)
{
    const int64_t dims[] = { 64 };
    onnx_bytes graph = { 0 };

    onnx_node(&graph, "Relu", "", "x", "y");
    onnx_input(&graph, "x", INLAY_FLOAT, 1, dims);
    onnx_output(&graph, "y", INLAY_FLOAT, 1, dims);
    (void)onnx_file(file, &graph, 17, NULL);
}

static inlay_status set_inputs(const inlay_session *session, inlay_context *context, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < inlay_session_input_count(session) && status == INLAY_OK; i++) {
        inlay_io_info input = { .struct_size = sizeof input };
        int64_t dims[INLAY_MAX_RANK];
        inlay_value *value = NULL;

        status = inlay_session_input(session, i, &input);
        for (uint32_t d = 0; d < input.rank && status == INLAY_OK; d++)
            dims[d] = input.dims[d] >= 0 ? input.dims[d] : input.rank == 4 && d >= 2 ? 224 : 1;
        if (status == INLAY_OK)
            status = inlay_value_create(input.dtype, input.rank, dims, &value, diag);
        if (status == INLAY_OK) {
            memset(inlay_value_data(value), 0, (size_t)inlay_value_bytes(value));
            status = inlay_context_set_input(context, i, value, diag);
        }
        inlay_value_unref(value);
    }
    return status;
}

static inlay_status open_session(const char *model, const char *provider, const char *threads, bool isolated,
                                 inlay_session **out_session, inlay_context **out_context, inlay_diag *diag)
{
    inlay_options *options = NULL;
    onnx_bytes bytes = { 0 };
    char providers[200];
    inlay_status status = inlay_options_create(&options, diag);

    (void)snprintf(providers, sizeof providers, "%s,reference", provider);
    if (status == INLAY_OK)
        status = inlay_options_set(options, "providers", providers, diag);
    if (status == INLAY_OK)
        status = inlay_options_set(options, "intra_threads", threads, diag);
    if (status == INLAY_OK && isolated)
        status = inlay_options_set(options, "isolate", provider, diag);
    if (status == INLAY_OK && model == NULL) {
        relu_model(&bytes);
        status = inlay_session_create_from_bytes(bytes.data, bytes.count, options, out_session, diag);
    } else if (status == INLAY_OK) {
        status = inlay_session_create(model, options, out_session, diag);
    }
    if (status == INLAY_OK)
        status = inlay_context_create(*out_session, out_context, diag);
    if (status == INLAY_OK)
        status = set_inputs(*out_session, *out_context, diag);
    inlay_options_destroy(options);
    return status;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    static double ns[KINDS][MOST_RUNS];
    static const char *const names[KINDS] = { "in this process", "isolated" };
    inlay_session *sessions[KINDS] = { NULL };
    inlay_context *contexts[KINDS] = { NULL };
    const char *provider = "cpu", *threads = "1", *model = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    double seconds = 5;
    uint64_t end;
    size_t count = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
            seconds = strtod(argv[++i], NULL);
        else if (strcmp(argv[i], "--provider") == 0 && i + 1 < argc)
            provider = argv[++i];
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            threads = argv[++i];
        else
            model = argv[i];
    }
    for (int kind = 0; kind < KINDS; kind++)
        if (open_session(model, provider, threads, kind == 1, &sessions[kind], &contexts[kind], &diag) != INLAY_OK ||
            inlay_context_run(contexts[kind], NULL, &diag) != INLAY_OK)
            return fail(&diag);
    end = clock_ns() + (uint64_t)(seconds * 1e9);
    for (; count < MOST_RUNS && clock_ns() < end; count++)
        for (int kind = 0; kind < KINDS; kind++) {
            const uint64_t begin = clock_ns();

            if (inlay_context_run(contexts[kind], NULL, &diag) != INLAY_OK)
                return fail(&diag);
            ns[kind][count] = (double)(clock_ns() - begin);
        }
    for (int kind = 0; kind < KINDS; kind++) {
        qsort(ns[kind], count, sizeof ns[kind][0], by_size);
        (void)printf("%-16s minimum %12.3f us   median %12.3f us\n", names[kind], ns[kind][0] / 1e3,
                     ns[kind][count / 2] / 1e3);
        inlay_context_destroy(contexts[kind]);
        inlay_session_destroy(sessions[kind]);
    }
    (void)printf("%-16s minimum %+12.3f us   median %+12.3f us   (%zu pairs; ratio of minima %.3f)\n", "difference",
                 (ns[1][0] - ns[0][0]) / 1e3, (ns[1][count / 2] - ns[0][count / 2]) / 1e3, count, ns[1][0] / ns[0][0]);
    return 0;
}
