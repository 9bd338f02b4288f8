/* Loads, compiles and runs small models with the first allocation failing, then the second, and so on until none fails.
 * Each attempt must end with a status and without leaked blocks. */
#include "graph_script.h"
#include "../api/update_models.h"
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An allocator that fails on request.
 *
 * Defined in the program, these functions replace those of libc for every loaded library, including plugins. */

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *p, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);
extern void __libc_free(void *p);

static int enabled;         /* count calls of threads with counts_this_thread, and let them fail */
static long countdown = -1; /* allocations until the one that fails; negative: none */
static long live;           /* allocated blocks */
static long calls;          /* allocations of threads with counts_this_thread */
static long failures;
static __thread int counts_this_thread;

/* Address ranges of libdnnl and the C++ library: they end the process if memory is exhausted, so their allocations
 * never fail. */
static struct range {
    uintptr_t begin, end;
} exempt[8];
static unsigned exempt_count;

static int note_exempt(struct dl_phdr_info *info, size_t bytes, void *unused)
{
    (void)bytes;
    (void)unused;
    if (strstr(info->dlpi_name, "libdnnl") == NULL && strstr(info->dlpi_name, "libstdc++") == NULL)
        return 0;
    for (unsigned i = 0; i < info->dlpi_phnum && exempt_count < sizeof exempt / sizeof exempt[0]; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + segment->p_vaddr;

        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0)
            exempt[exempt_count++] = (struct range){ begin, begin + segment->p_memsz };
    }
    return 0;
}

static int must_fail(const void *caller)
{
    if (!enabled || !counts_this_thread)
        return 0;
    for (unsigned i = 0; i < exempt_count; i++)
        if ((uintptr_t)caller >= exempt[i].begin && (uintptr_t)caller < exempt[i].end)
            return 0;
    calls++;
    if (countdown < 0)
        return 0;
    if (countdown-- > 0)
        return 0;
    failures++;
    errno = ENOMEM;
    return 1;
}

static void *counted(void *p)
{
    if (p != NULL)
        __atomic_add_fetch(&live, 1, __ATOMIC_RELAXED);
    return p;
}

void *malloc(size_t bytes)
{
    return must_fail(__builtin_return_address(0)) ? NULL : counted(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    return must_fail(__builtin_return_address(0)) ? NULL : counted(__libc_calloc(count, bytes));
}

void *realloc(void *p, size_t bytes)
{
    if (must_fail(__builtin_return_address(0)))
        return NULL;
    return p == NULL ? counted(__libc_realloc(NULL, bytes)) : __libc_realloc(p, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    *out = must_fail(__builtin_return_address(0)) ? NULL : counted(__libc_memalign(alignment, bytes));
    return *out == NULL ? ENOMEM : 0;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return must_fail(__builtin_return_address(0)) ? NULL : counted(__libc_memalign(alignment, bytes));
}

void free(void *p)
{
    if (p != NULL)
        __atomic_sub_fetch(&live, 1, __ATOMIC_RELAXED);
    __libc_free(p);
}

static inlay_status bind_inputs(inlay_session *session, inlay_context *context, inlay_diag *diag)
{
    for (uint32_t i = 0; i < inlay_session_input_count(session); i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        int64_t dims[16];
        inlay_value *value = NULL;
        inlay_status status;

        (void)inlay_session_input(session, i, &info);
        for (uint32_t d = 0; info.rank <= 16 && d < info.rank; d++)
            dims[d] = info.dims[d] >= 0 ? info.dims[d] : 2;
        if (info.kind == INLAY_KIND_TENSOR)
            status = inlay_value_create(info.dtype, info.rank, dims, &value, diag);
        else
            status = inlay_value_create_list(info.kind, info.dtype, NULL, 0, &value, diag);
        if (status == INLAY_OK)
            status = inlay_context_set_input(context, i, value, diag);
        inlay_value_unref(value);
        if (status != INLAY_OK)
            return status;
    }
    return INLAY_OK;
}

static inlay_status attempt_on(const char *path, const char *providers, inlay_diag *diag)
{
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    inlay_status status = inlay_options_create(&options, diag);

    if (status == INLAY_OK)
        status = inlay_options_set(options, "intra_threads", "1", diag);
    if (status == INLAY_OK && providers != NULL)
        status = inlay_options_set(options, "providers", providers, diag);
    if (status == INLAY_OK && providers != NULL)
        status = inlay_options_set(options, "policy", "priority", diag);
    if (status == INLAY_OK)
        status = inlay_session_create(path, options, &session, diag);
    if (status == INLAY_OK)
        status = inlay_context_create(session, &context, diag);
    if (status == INLAY_OK)
        status = bind_inputs(session, context, diag);
    if (status == INLAY_OK)
        status = inlay_context_run(context, NULL, diag);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    inlay_options_destroy(options);
    return status;
}

static inlay_status attempt(const char *path, inlay_diag *diag)
{
    return attempt_on(path, NULL, diag);
}

/* An attempt on provider cpu, which compiles regions of several nodes, if it is installed. */
static inlay_status attempt_regions(const char *path, inlay_diag *diag)
{
    return attempt_on(path, "cpu,reference", diag);
}

static void count_bytes(void *user, const char *text, size_t bytes)
{
    (void)text;
    *(size_t *)user += bytes;
}

/* An attempt that queries all reports of a session after a measured run. */
static inlay_status attempt_explanations(const char *path, inlay_diag *diag)
{
    const char *const rules[] = { "op:*=reference", "threads=1" };
    const inlay_explain_options questions[] = {
        { .struct_size = sizeof questions[0], .format = "text", .flags = INLAY_EXPLAIN_ALL },
        { .struct_size = sizeof questions[0], .format = "json", .what_ifs = rules, .what_if_count = 2 },
        { .struct_size = sizeof questions[0],
          .format = "json",
          .flags = INLAY_EXPLAIN_KERNELS | INLAY_EXPLAIN_OBJECTIVES | INLAY_EXPLAIN_SCALING },
        { .struct_size = sizeof questions[0], .format = "text", .node = "op:*" },
        { .struct_size = sizeof questions[0], .format = "json", .node = "*" },
    };
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    size_t bytes = 0;
    inlay_status status = inlay_session_create(path, NULL, &session, diag);

    if (status == INLAY_OK)
        status = inlay_context_create(session, &context, diag);
    if (status == INLAY_OK)
        status = bind_inputs(session, context, diag);
    if (status == INLAY_OK)
        status = inlay_context_measure(context, 1, diag);
    if (status == INLAY_OK)
        status = inlay_context_run(context, NULL, diag);
    for (size_t i = 0; i < sizeof questions / sizeof questions[0] && status == INLAY_OK; i++) {
        inlay_explain_options options = questions[i];
        options.measured = context;
        status = inlay_session_explain(session, &options, count_bytes, &bytes, diag);
    }
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    assert_true(status != INLAY_OK || bytes > 1000);
    return status;
}

static bool is_result(inlay_context *context, const float *want)
{
    return inlay_context_run(context, NULL, NULL) == INLAY_OK &&
           memcmp(inlay_value_data(inlay_context_output(context, 0)), want, ROWS * WIDTH * sizeof *want) == 0;
}

/* Replaces all weights of a session, in which allocations fail. Then the session computes the same as before. */
static inlay_status attempt_update(const char *path, inlay_diag *diag)
{
    static onnx_bytes file;
    static update_model model;
    uint64_t contents[MAX_WEIGHTS] = { 0 };
    const char *names[MAX_WEIGHTS];
    inlay_value *values[MAX_WEIGHTS] = { NULL };
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    inlay_context *context = NULL;
    float before[ROWS * WIDTH] = { 0 };
    inlay_status status;

    enabled = 0;
    assert_int_equal(update_model_write(&model, strtoull(path, NULL, 10), contents, &file), 0);
    assert_int_equal(inlay_options_create(&options, diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "intra_threads", "1", diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", "cpu?,reference", diag), INLAY_OK);
    status = inlay_session_create_from_bytes(file.data, file.count, options, &session, diag);
    inlay_options_destroy(options);
    if (status == INLAY_OK)
        status = inlay_context_create(session, &context, diag);
    if (status == INLAY_OK)
        status = bind_inputs(session, context, diag);
    if (status == INLAY_OK)
        status = inlay_context_run(context, NULL, diag);
    if (status == INLAY_OK)
        memcpy(before, inlay_value_data(inlay_context_output(context, 0)), sizeof before);
    for (uint32_t i = 0; i < model.weight_count && status == INLAY_OK; i++) {
        names[i] = model.weights[i].name;
        status =
            inlay_value_create(model.weights[i].dtype, model.weights[i].rank, model.weights[i].dims, &values[i], diag);
        if (status == INLAY_OK)
            (void)weight_fill(&model.weights[i], 1 + i, inlay_value_data(values[i]));
    }
    if (status == INLAY_OK) {
        enabled = 1;
        status = inlay_session_update(session, model.weight_count, names, values, diag);
        enabled = 0;
        assert_int_equal(is_result(context, before), status != INLAY_OK);
    }
    for (uint32_t i = 0; i < model.weight_count; i++)
        inlay_value_unref(values[i]);
    inlay_context_destroy(context);
    inlay_session_destroy(session);
    enabled = 1;
    return status;
}

/* Loads and queries settings of every type from a file. */
static inlay_status attempt_settings(const char *path, inlay_diag *diag)
{
    inlay_options *options = NULL;
    inlay_status status = inlay_options_create(&options, diag);
    inlay_setting setting = { .struct_size = sizeof setting };

    if (status == INLAY_OK)
        status = inlay_options_load(options, path, diag);
    if (status == INLAY_OK)
        status = inlay_options_load_environment(options, diag);
    for (uint32_t i = 0; status == INLAY_OK && inlay_options_setting(options, i, &setting) == INLAY_OK; i++)
        assert_non_null(setting.text);
    inlay_options_destroy(options);
    return status;
}

typedef inlay_status (*attempt_fn)(const char *path, inlay_diag *diag);

static void fail_each_allocation(const char *name, const char *path, attempt_fn attempt_it)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    long before, attempts = 0;

    counts_this_thread = 1;
    enabled = 1;
    /* The first runs allocate what libraries keep permanently (locale, stdio, the loader's lists). */
    for (int warm = 0; warm < 2; warm++) {
        status = attempt_it(path, &diag);
        if (status != INLAY_OK)
            fail_msg("%s: %s", name, diag.text);
    }
    exempt_count = 0;
    (void)dl_iterate_phdr(note_exempt, NULL);
    do {
        /* Repeat if blocks remain: what a library keeps (the loader's last error) is allocated once, a leak each
         * time. */
        for (int again = 0; again < 3; again++) {
            before = live;
            failures = 0;
            countdown = attempts;
            diag = (inlay_diag)INLAY_DIAG_INIT;
            status = attempt_it(path, &diag);
            countdown = -1;
            if (live <= before)
                break;
        }
        attempts++;
        if (status != INLAY_OK && diag.text[0] == '\0')
            fail_msg("%s: allocation %ld failed without a message", name, attempts);
        if (live > before)
            fail_msg("%s: %ld blocks leak when allocation %ld fails (%s)", name, live - before, attempts, diag.text);
    } while (failures > 0);
    enabled = 0;
    assert_int_equal(status, INLAY_OK);
    assert_true(attempts > 30);
    print_message("%s: %ld allocations\n", name, attempts - 1);
}

static void test_models(void **state)
{
    static const char *const names[] = {
        "pytorch-converted/test_Conv2d", "node/test_loop11", "node/test_if_seq", "node/test_nonzero_example",
        "simple/test_sequence_model5",
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[512];

        (void)snprintf(path, sizeof path, "%s/%s/model.onnx", ONNX_TEST_DATA, names[i]);
        fail_each_allocation(names[i], path, attempt);
    }
}

/* 8-bit integers: a convolution, an addition, a matrix multiplication of dynamically quantized values. */
static const char quantized[] =
    "x : 1,4,6,6\ns = [] 0.05\nzi = i[] 0\nz = Cast(zi) to=3\nw = [8,4,3,3]\nm = [288,5]\nb = [8]\n"
    "xq = QuantizeLinear(x, s, z)\nxd = DequantizeLinear(xq, s, z)\nwq = QuantizeLinear(w, s, z)\n"
    "wd = DequantizeLinear(wq, s, z)\nc = Conv(xd, wd, b) pads=1,1,1,1\nr = Relu(c)\ncq = QuantizeLinear(r, s, z)\n"
    "cd = DequantizeLinear(cq, s, z)\na = Add(cd, cd)\naq = QuantizeLinear(a, s, z)\nad = DequantizeLinear(aq, s, z)\n"
    "f = Flatten(ad) axis=1\ndq, ds, dz = DynamicQuantizeLinear(f)\nmq = QuantizeLinear(m, s, z)\n"
    "p = MatMulInteger(dq, mq, dz)\npf = Cast(p) to=1\ny = Mul(pf, ds)\n-> y";

static void fail_each_allocation_of_script(const char *name, const char *script, attempt_fn attempt_it)
{
    char path[] = "/tmp/inlay-script-XXXXXX";
    int file = mkstemp(path);
    struct wire wire = { 0 };

    script_model(&wire, 17, script);
    assert_true(file >= 0 && !wire.failed);
    assert_int_equal(write(file, wire.bytes, wire.count), (ssize_t)wire.count);
    assert_int_equal(close(file), 0);
    fail_each_allocation(name, path, attempt_it);
    assert_int_equal(unlink(path), 0);
    wire_deinit(&wire);
}

static void test_integers(void **state)
{
    (void)state;
    fail_each_allocation_of_script("integers", quantized, attempt_regions);
}

static void test_regions(void **state)
{
    static const char *const names[] = {
        "pytorch-converted/test_Conv2d",
        "pytorch-converted/test_BatchNorm2d_eval",
        "pytorch-converted/test_MaxPool2d",
        "pytorch-converted/test_Linear",
        "node/test_concat_2d_axis_1",
        "node/test_add_bcast",
        "node/test_hardsigmoid",
        "node/test_softmax_axis_1",
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[512];

        (void)snprintf(path, sizeof path, "%s/%s/model.onnx", ONNX_TEST_DATA, names[i]);
        fail_each_allocation(names[i], path, attempt_regions);
    }
}

static void test_explanations(void **state)
{
    (void)state;
    fail_each_allocation("explanations", ONNX_TEST_DATA "/node/test_loop11/model.onnx", attempt_explanations);
}

static void test_settings(void **state)
{
    (void)state;
    assert_int_equal(setenv("INLAY_DIM", "a=1,b=2", 1), 0);
    fail_each_allocation("settings", INLAY_SOURCE_DIR "/tests/fuzz/corpus/config/all.yaml", attempt_settings);
    assert_int_equal(unsetenv("INLAY_DIM"), 0);
}

static void test_updates(void **state)
{
    static const char *const seeds[] = { "3", "9" };

    (void)state;
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++)
        fail_each_allocation("an update", seeds[i], attempt_update);
}

/* From the third run on nothing allocates memory, including bodies and data-dependent steps. */
static void test_steady_runs(void **state)
{
    static const char *const names[] = {
        "node/test_add",
        "pytorch-converted/test_Conv2d",
        "pytorch-converted/test_Embedding",
        "node/test_loop11",
        "node/test_if",
        "node/test_scan9_sum",
        "node/test_nonzero_example",
        "node/test_compress_0",
        "node/test_constantofshape_float_ones",
        "node/test_nonmaxsuppression_single_box",
        "node/test_identity",
        "node/test_squeeze",
        "node/test_lstm_defaults",
        "node/test_tile",
    };

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_options *options = NULL;
        inlay_session *session = NULL;
        inlay_context *context = NULL;
        char path[512];
        long before;

        (void)snprintf(path, sizeof path, "%s/%s/model.onnx", ONNX_TEST_DATA, names[i]);
        assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
        assert_int_equal(inlay_options_set(options, "intra_threads", "1", &diag), INLAY_OK);
        if (inlay_session_create(path, options, &session, &diag) != INLAY_OK ||
            inlay_context_create(session, &context, &diag) != INLAY_OK ||
            bind_inputs(session, context, &diag) != INLAY_OK)
            fail_msg("%s: %s", names[i], diag.text);
        counts_this_thread = 1;
        enabled = 1;
        countdown = -1;
        for (int run = 0; run < 6; run++) {
            before = calls;
            if (inlay_context_run(context, NULL, &diag) != INLAY_OK)
                fail_msg("%s: %s", names[i], diag.text);
            if (run >= 2 && calls > before)
                fail_msg("%s: %ld allocations in run %d", names[i], calls - before, run + 1);
        }
        enabled = 0;
        inlay_context_destroy(context);
        inlay_session_destroy(session);
        inlay_options_destroy(options);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_explanations), cmocka_unit_test(test_models),
                                        cmocka_unit_test(test_regions),      cmocka_unit_test(test_integers),
                                        cmocka_unit_test(test_settings),     cmocka_unit_test(test_steady_runs),
                                        cmocka_unit_test(test_updates) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
