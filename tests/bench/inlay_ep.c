/* Times models in inlay alone, in ONNX Runtime alone, and in ONNX Runtime with libinlay_ep.so: creation of a session,
 * and runs, in turn, so that a change of the machine's speed meets all three.
 *     ORT_LIBRARY=/path/libonnxruntime.so.1 bench_inlay_ep ROUNDS MODEL...
 *     ORT_LIBRARY=/path/libonnxruntime.so.1 bench_inlay_ep late RUNS MODEL...
 * The second form prints how late the latest of RUNS runs are, in inlay alone (INLAY_REALTIME=1 locks memory) and in
 * ONNX Runtime alone, in turn: p50, p99, p99.99 and the longest; to be run beside two busy programs.
 * One thread; open sizes are 1. The cache folder is that of the environment (INLAY_CACHE_DIR), for inlay in both. */
#include "stock.h"
#include "inlay/inlay.h"
#include <sys/stat.h>
#include <time.h>

enum { MOST_VALUES = 64, MOST_RANK = 8, MOST_ROUNDS = 1000 };

static double now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int compare(const void *one, const void *other)
{
    const double a = *(const double *)one, b = *(const double *)other;

    return (a > b) - (a < b);
}

static double median(double *list, int count)
{
    qsort(list, (size_t)count, sizeof *list, compare);
    return list[count / 2];
}

/* The inputs of a model, for both libraries. */
struct inputs {
    OrtValue *values[MOST_VALUES];
    char *names[MOST_VALUES], *outputs[MOST_VALUES];
    size_t count, output_count;
};

static void make_inputs(OrtSession *session, struct inputs *out)
{
    ok(api->SessionGetInputCount(session, &out->count));
    ok(api->SessionGetOutputCount(session, &out->output_count));
    for (size_t i = 0; i < out->output_count; i++)
        ok(api->SessionGetOutputName(session, i, allocator, &out->outputs[i]));
    for (size_t i = 0; i < out->count; i++) {
        const OrtTensorTypeAndShapeInfo *shape = NULL;
        OrtTypeInfo *info = NULL;
        int64_t dims[MOST_RANK];
        size_t rank = 0, bytes = 0;
        void *data;
        int type;

        ok(api->SessionGetInputName(session, i, allocator, &out->names[i]));
        ok(api->SessionGetInputTypeInfo(session, i, &info));
        ok(api->CastTypeInfoToTensorInfo(info, &shape));
        ok(api->GetTensorElementType(shape, &type));
        ok(api->GetDimensionsCount(shape, &rank));
        ok(api->GetDimensions(shape, dims, rank));
        api->ReleaseTypeInfo(info);
        for (size_t d = 0; d < rank; d++)
            dims[d] = dims[d] < 0 ? 1 : dims[d];
        ok(api->CreateTensorAsOrtValue(allocator, dims, rank, type, &out->values[i]));
        ok(api->GetTensorSizeInBytes(out->values[i], &bytes));
        ok(api->GetTensorMutableData(out->values[i], &data));
        memset(data, 0, bytes);
        for (size_t k = 0; type == FLOAT && k < bytes / sizeof(float); k++)
            ((float *)data)[k] = (float)((k * 37 + 11) % 101) / 101 - 0.5f;
    }
}

static double run_runtime(OrtSession *session, const struct inputs *in)
{
    OrtValue *outputs[MOST_VALUES] = { NULL };
    const double start = now_ms();
    double ms;

    ok(api->Run(session, NULL, (const char *const *)in->names, (const OrtValue *const *)in->values, in->count,
                (const char *const *)in->outputs, in->output_count, outputs));
    ms = now_ms() - start;
    for (size_t i = 0; i < in->output_count; i++)
        api->ReleaseValue(outputs[i]);
    return ms;
}

static inlay_context *bind_alone(inlay_session *session, const struct inputs *in)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *context = NULL;

    assert_int_equal(inlay_context_create(session, &context, &diag), INLAY_OK);
    for (size_t i = 0; i < in->count; i++) {
        OrtTensorTypeAndShapeInfo *shape = NULL;
        inlay_value *value = NULL;
        int64_t dims[MOST_RANK];
        size_t rank, bytes;
        void *data;
        int type;

        ok(api->GetTensorTypeAndShape(in->values[i], &shape));
        ok(api->GetTensorElementType(shape, &type));
        ok(api->GetDimensionsCount(shape, &rank));
        ok(api->GetDimensions(shape, dims, rank));
        api->ReleaseTensorTypeAndShapeInfo(shape);
        ok(api->GetTensorSizeInBytes(in->values[i], &bytes));
        ok(api->GetTensorMutableData(in->values[i], &data));
        assert_int_equal(inlay_value_borrow((inlay_dtype)type, (uint32_t)rank, dims, data, bytes, &value, &diag),
                         INLAY_OK);
        assert_int_equal(
            inlay_context_set_input(context, inlay_session_find_input(session, in->names[i]), value, &diag), INLAY_OK);
        inlay_value_unref(value);
    }
    return context;
}

static void time_model(const char *path, int rounds, const OrtSessionOptions *plain, const OrtSessionOptions *with,
                       const inlay_options *options)
{
    enum { ALONE, STOCK, BOTH, KINDS };
    static double create[KINDS][MOST_ROUNDS], run[KINDS][MOST_ROUNDS];
    inlay_diag diag = INLAY_DIAG_INIT;
    double ms[KINDS][2];

    for (int round = 0; round < rounds; round++) {
        OrtSession *stock = NULL, *both = NULL;
        struct inputs in = { .count = 0 };
        inlay_session *alone = NULL;
        inlay_context *context;
        double start = now_ms();

        if (inlay_session_create(path, options, &alone, &diag) != INLAY_OK)
            fail_msg("%s: %s", path, diag.text);
        create[ALONE][round] = now_ms() - start;
        start = now_ms();
        ok(api->CreateSession(env, path, plain, &stock));
        create[STOCK][round] = now_ms() - start;
        start = now_ms();
        ok(api->CreateSession(env, path, with, &both));
        create[BOTH][round] = now_ms() - start;
        make_inputs(stock, &in);
        context = bind_alone(alone, &in);
        for (int kind = 0; kind < KINDS; kind++)
            run[kind][round] = 1e9;
        for (int i = 0; i < 12; i++) { /* the shortest of ten, after two for plans */
            double now[KINDS];

            start = now_ms();
            assert_int_equal(inlay_context_run(context, NULL, &diag), INLAY_OK);
            now[ALONE] = now_ms() - start;
            now[STOCK] = run_runtime(stock, &in);
            now[BOTH] = run_runtime(both, &in);
            for (int kind = 0; i > 1 && kind < KINDS; kind++)
                run[kind][round] = now[kind] < run[kind][round] ? now[kind] : run[kind][round];
        }
        inlay_context_destroy(context);
        inlay_session_destroy(alone);
        for (size_t i = 0; i < in.count; i++)
            api->ReleaseValue(in.values[i]);
        api->ReleaseSession(stock);
        api->ReleaseSession(both);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        ms[kind][0] = median(create[kind], rounds);
        ms[kind][1] = median(run[kind], rounds);
    }
    print_message("%s: create inlay %.1f, stock %.1f, with inlay %.1f ms (%.2f of inlay); run inlay %.3f, stock %.3f, "
                  "with inlay %.3f ms (%.2f of inlay's speed, %.2f of stock's)\n",
                  path, ms[ALONE][0], ms[STOCK][0], ms[BOTH][0], ms[BOTH][0] / ms[ALONE][0], ms[ALONE][1], ms[STOCK][1],
                  ms[BOTH][1], ms[ALONE][1] / ms[BOTH][1], ms[STOCK][1] / ms[BOTH][1]);
}

static void print_late(const char *what, double *ms, int runs)
{
    const int beyond = runs / 10000; /* the runs above p99.99 */

    qsort(ms, (size_t)runs, sizeof *ms, compare);
    print_message("  %s: p50 %.4f, p99 %.4f, p99.99 %.4f, longest %.4f ms\n", what, ms[runs / 2],
                  ms[runs - 1 - runs / 100], ms[runs - 1 - beyond], ms[runs - 1]);
}

static void time_late(const char *path, int runs, const OrtSessionOptions *plain, const inlay_options *options)
{
    double *ms[2] = { calloc((size_t)runs, sizeof **ms), calloc((size_t)runs, sizeof **ms) };
    OrtSession *stock = NULL;
    struct inputs in = { .count = 0 };
    inlay_session *alone = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_context *context;

    if (ms[0] == NULL || ms[1] == NULL || inlay_session_create(path, options, &alone, &diag) != INLAY_OK)
        fail_msg("%s: %s", path, diag.text);
    ok(api->CreateSession(env, path, plain, &stock));
    make_inputs(stock, &in);
    context = bind_alone(alone, &in);
    for (int i = -10; i < runs; i++) { /* ten without a record */
        const double start = now_ms();

        assert_int_equal(inlay_context_run(context, NULL, &diag), INLAY_OK);
        ms[0][i < 0 ? 0 : i] = now_ms() - start;
        ms[1][i < 0 ? 0 : i] = run_runtime(stock, &in);
    }
    print_message("%s, %d runs\n", path, runs);
    print_late("inlay", ms[0], runs);
    print_late("ONNX Runtime", ms[1], runs);
    inlay_context_destroy(context);
    inlay_session_destroy(alone);
    for (size_t i = 0; i < in.count; i++)
        api->ReleaseValue(in.values[i]);
    api->ReleaseSession(stock);
    free(ms[0]);
    free(ms[1]);
}

int main(int argc, char **argv)
{
    const bool late = argc > 3 && strcmp(argv[1], "late") == 0;
    const int rounds = argc > 2 ? atoi(argv[late ? 2 : 1]) : 0;
    OrtSessionOptions *plain = NULL, *with;
    inlay_options *options = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    void *state = NULL;

    if (rounds < 1 || (rounds > MOST_ROUNDS && !late) || begin(&state) != 0) {
        (void)fprintf(stderr, "usage: ORT_LIBRARY=FILE bench_inlay_ep ROUNDS|late RUNS MODEL...\n");
        return 2;
    }
    with = options_with("intra_threads", "1");
    ok(api->SetIntraOpNumThreads(with, 1));
    ok(api->CreateSessionOptions(&plain));
    ok(api->SetIntraOpNumThreads(plain, 1));
    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    assert_int_equal(inlay_options_load_environment(options, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "intra_threads", "1", &diag), INLAY_OK);
    for (int i = late ? 3 : 2; i < argc; i++) {
        if (late)
            time_late(argv[i], rounds, plain, options);
        else
            time_model(argv[i], rounds, plain, with, options);
    }
    inlay_options_destroy(options);
    api->ReleaseSessionOptions(plain);
    api->ReleaseSessionOptions(with);
    return end(&state);
}
