/* Provider ort_ep with a library that computes in the memory of its device (test_ep.c): values stay there between
 * regions, as the library's own count of its copies shows; others reach it by copies. */
#include "cmocka_all.h"
#include "inlay/inlay.h"
#include "keep_plugins.h"
#include "onnx_bytes.h"
#include "random.h"
#include "run_context.h"
#include "test_ep.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 14, COUNT = 6, GRAPHS = 60 };
static const int64_t dims[] = { 2, 3 };
static const float data[2][COUNT] = { { 0.5f, 1, -2, 3, 0.25f, 7 }, { 1, 0, -1, 2, 5, -3 } };

typedef struct device_model {
    onnx_bytes file;
    test_ep_copies expected; /* of a run */
} device_model;

static inlay_session *open_model(const device_model *model, const char *providers, const char *const *pairs)
{
    const char *const common[] = { "providers", providers, "policy", "priority", "level", "0", "cache_dir", "", NULL };
    const char *const *lists[] = { common, pairs };
    inlay_options *options = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;

    keep_plugins();
    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    for (size_t i = 0; i < 2; i++)
        for (const char *const *pair = lists[i]; pair != NULL && *pair != NULL; pair += 2)
            if (inlay_options_set(options, pair[0], pair[1], &diag) != INLAY_OK)
                fail_msg("%s: %s", pair[0], diag.text);
    if (inlay_session_create_from_bytes(model->file.data, model->file.count, options, &session, &diag) != INLAY_OK)
        fail_msg("%s: %s", providers, diag.text);
    inlay_options_destroy(options);
    return session;
}

static inlay_context *bind(const inlay_session *session, uint32_t rank)
{
    inlay_context *context = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;

    assert_int_equal(inlay_context_create((inlay_session *)(uintptr_t)session, &context, &diag), INLAY_OK);
    for (uint32_t i = 0; i < inlay_session_input_count(session); i++) {
        inlay_value *value = NULL;

        assert_int_equal(inlay_value_borrow(INLAY_FLOAT, rank, rank == 1 ? &(int64_t){ COUNT } : dims,
                                            (void *)(uintptr_t)data[i], sizeof data[i], &value, &diag),
                         INLAY_OK);
        assert_int_equal(inlay_context_set_input(context, i, value, &diag), INLAY_OK);
        inlay_value_unref(value);
    }
    return context;
}

/* The library counts the copies of its process. */
static test_ep_copies take_copies(void)
{
    test_ep_copies (*take)(void);
    void *library = dlopen(TEST_EP, RTLD_NOW | RTLD_NOLOAD), *symbol;
    test_ep_copies taken = { 0, 0 };

    if (library == NULL) /* only another process has opened it */
        return taken;
    symbol = dlsym(library, "test_ep_take_copies");
    assert_non_null(symbol);
    memcpy(&take, &symbol, sizeof take);
    taken = take();
    (void)dlclose(library);
    return taken;
}

/* Compares all outputs of a few runs with those of provider reference. expected: the copies of the first one; NULL: any
 * number. */
static void check_runs(const device_model *model, uint32_t rank, const char *const *pairs,
                       const test_ep_copies *expected)
{
    inlay_session *plain = open_model(model, "reference", NULL),
                  *session = open_model(model, "ort_ep,reference", pairs);
    inlay_context *wanted = bind(plain, rank), *got = bind(session, rank);

    run_context(wanted);
    for (int round = 0; round < 3; round++) {
        test_ep_copies copies;

        (void)take_copies();
        run_context(got);
        copies = take_copies();
        if (expected != NULL && round == 0 &&
            (copies.to_device != expected->to_device || copies.to_host != expected->to_host))
            fail_msg("%d copies to the device and %d to the host instead of %d and %d", copies.to_device,
                     copies.to_host, expected->to_device, expected->to_host);
        for (uint32_t i = 0; i < inlay_session_output_count(plain); i++) {
            const inlay_value *one = inlay_context_output(wanted, i), *other = inlay_context_output(got, i);

            assert_int_equal(inlay_value_bytes(one), inlay_value_bytes(other));
            assert_memory_equal(inlay_value_data(one), inlay_value_data(other), inlay_value_bytes(one));
        }
    }
    inlay_context_destroy(wanted);
    inlay_context_destroy(got);
    inlay_session_destroy(plain);
    inlay_session_destroy(session);
}

/* A random graph of operators that the library fuses, of one that it has a kernel for, and of one that it does not
 * run. Values that no node reads are outputs. Between the library's regions there are no copies: a value is copied
 * once if a region reads it and the host has it, or the other way round. */
static void write_random(device_model *model, uint64_t *seed)
{
    static const struct {
        const char *op;
        int inputs;
        bool on_device;
    } kinds[] = { { "Mul", 2, true }, { "Add", 2, true }, { "Neg", 1, true }, { "Abs", 1, false } };
    const int count = (int)random_between(seed, 2, LONGEST);
    bool on_device[LONGEST + 2] = { false }, read_on_device[LONGEST + 2] = { false };
    const int64_t declared[] = { random_below(seed, 2) > 0 ? dims[0] : -1, dims[1] };
    bool read_on_host[LONGEST + 2] = { false };
    static onnx_bytes graph;
    char inputs[32], output[16];

    graph = (onnx_bytes){ .count = 0 };
    *model = (device_model){ .expected = { 0, 0 } };
    onnx_input(&graph, "v0", INLAY_FLOAT, 2, declared);
    onnx_input(&graph, "v1", INLAY_FLOAT, 2, declared);
    for (int i = 0; i < count; i++) {
        const size_t kind = (size_t)random_below(seed, sizeof kinds / sizeof kinds[0]);
        const int reads[2] = { random_below(seed, 3) > 0 ? i + 1 : (int)random_below(seed, (uint64_t)i + 2),
                               (int)random_below(seed, (uint64_t)i + 2) };

        for (int k = 0; k < kinds[kind].inputs; k++)
            (kinds[kind].on_device ? read_on_device : read_on_host)[reads[k]] = true;
        on_device[i + 2] = kinds[kind].on_device;
        (void)snprintf(inputs, sizeof inputs, kinds[kind].inputs == 2 ? "v%d,v%d" : "v%d", reads[0], reads[1]);
        (void)snprintf(output, sizeof output, "v%d", i + 2);
        onnx_node(&graph, kinds[kind].op, "", inputs, output);
    }
    for (int i = 0; i < count + 2; i++) {
        const bool is_output = i >= 2 && !read_on_device[i] && !read_on_host[i];

        (void)snprintf(output, sizeof output, "v%d", i);
        if (is_output)
            onnx_output(&graph, output, INLAY_FLOAT, 2, declared);
        model->expected.to_device += !on_device[i] && read_on_device[i];
        model->expected.to_host += on_device[i] && (read_on_host[i] || is_output);
    }
    assert_int_equal(onnx_file(&model->file, &graph, 13, NULL), 0);
}

static void values_stay_on_the_device(void **state)
{
    const char *pairs[] = { "ort_ep.library", TEST_EP, "ort_ep.environment", "memory=1", NULL };
    static device_model model;
    uint64_t seed = 76;

    (void)state;
    for (int i = 0; i < GRAPHS; i++) {
        pairs[3] = i % 2 == 0 ? "memory=1" : "memory=1;stream=1";
        write_random(&model, &seed);
        check_runs(&model, 2, pairs, &model.expected);
    }
}

/* A library in another process gets the host's memory, and copies there. */
static void an_isolated_library_copies(void **state)
{
    const char *const pairs[] = { "ort_ep.library", TEST_EP,   "ort_ep.environment",
                                  "memory=1",       "isolate", "ort_ep",
                                  "require",        "ort_ep",  NULL };
    const test_ep_copies none = { 0, 0 };
    static device_model model;
    uint64_t seed = 76;

    (void)state;
    write_random(&model, &seed);
    check_runs(&model, 2, pairs, &none);
}

/* Values whose sizes depend on data, on the way to the library and from it, and between two regions of it. */
static void sizes_depend_on_data(void **state)
{
    static const char *const environments[] = { "", "memory=1", "memory=1;stream=1" };
    static const int64_t count = COUNT, unknown = -1;
    static onnx_bytes graph;
    static device_model model;

    (void)state;
    graph = (onnx_bytes){ .count = 0 };
    onnx_node(&graph, "Neg", "", "x", "n");
    onnx_node(&graph, "Equal", "", "x,y", "e");
    onnx_node(&graph, "Not", "", "e", "mask");
    onnx_node(&graph, "Compress", "", "n,mask", "c");
    onnx_node(&graph, "Neg", "", "c", "p");
    onnx_node(&graph, "Neg", "", "p", "q");
    onnx_node(&graph, "Abs", "", "q", "a");
    onnx_node(&graph, "Neg", "", "a", "z");
    onnx_input(&graph, "x", INLAY_FLOAT, 1, &count);
    onnx_input(&graph, "y", INLAY_FLOAT, 1, &count);
    onnx_output(&graph, "n", INLAY_FLOAT, 1, &count);
    onnx_output(&graph, "p", INLAY_FLOAT, 1, &unknown);
    onnx_output(&graph, "z", INLAY_FLOAT, 1, &unknown);
    assert_int_equal(onnx_file(&model.file, &graph, 13, NULL), 0);
    for (size_t i = 0; i < sizeof environments / sizeof environments[0]; i++)
        check_runs(&model, 1,
                   (const char *[]){ "ort_ep.library", TEST_EP, "ort_ep.environment", environments[i], "require",
                                     "ort_ep", NULL },
                   NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(values_stay_on_the_device),
                                        cmocka_unit_test(an_isolated_library_copies),
                                        cmocka_unit_test(sizes_depend_on_data) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
