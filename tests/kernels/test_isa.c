/* Option isa: a process with a capped instruction set uses only kernels of that set, including those of libdnnl and
 * OpenBLAS. The cap applies to the process, so ctest runs this program once for each:
 *   test_isa avx2            sets the option
 *   INLAY_ISA=avx2 test_isa  sets the environment variable */
#include "../cpu/region_models.h"
#include "../support/process_counts.h"
#include "run_context.h"
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *cap; /* of this process */
static bool by_option;

#if defined(HAVE_ONEDNN) || defined(HAVE_OPENBLAS)
static const char *const levels[] = { "baseline", "avx2", "avx512", "amx" };

static size_t level_of(const char *name)
{
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        if (strcmp(levels[i], name) == 0)
            return i;
    fail_msg("no level is called %s", name);
    return 0;
}

/* A function of a library that has been opened. */
static void *opened(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

    if (handle == NULL)
        fail_msg("%s is not open", library);
    return dlsym(handle, name);
}
#endif

/* Runs a model on a provider, and compares the outputs with those of provider reference. */
static void compare_with_reference(const char *providers, const char *option, const char *value)
{
    const int64_t dims[] = { 2, 80, WIDTH };
    const char *const setting = by_option ? "isa" : "policy", *const set = by_option ? cap : "priority";
    region_model model;
    inlay_value *x = NULL;
    struct rig actual, expected;
    uint64_t dice = 5;

    write_sequence_model(&model, 3, 3);
    assert_false(model.wire.failed);
    actual =
        model_open(&model.wire, (const char *const[]){ "providers", providers, setting, set, option, value, NULL });
    expected = model_open(&model.wire, (const char *const[]){ "providers", "reference", setting, set, NULL });
    assert_int_equal(inlay_value_create(INLAY_FLOAT, 3, dims, &x, NULL), INLAY_OK);
    for (int64_t i = 0; i < inlay_value_count(x); i++)
        ((float *)inlay_value_data(x))[i] = random_signed(&dice);
    for (int i = 0; i < 2; i++) {
        inlay_context *context = i == 0 ? actual.context : expected.context;
        inlay_diag diag = INLAY_DIAG_INIT;

        assert_int_equal(inlay_context_set_input(context, 0, x, &diag), INLAY_OK);
        run_context(context);
    }
    inlay_value_unref(x);
    {
        const inlay_value *a = inlay_context_output(actual.context, 0), *b = inlay_context_output(expected.context, 0);
        const float *p = inlay_value_data(a), *q = inlay_value_data(b);

        assert_int_equal(inlay_value_count(a), inlay_value_count(b));
        for (int64_t i = 0; i < inlay_value_count(b); i++)
            if (!(fabsf(p[i] - q[i]) <= 1e-4f * (1 + fabsf(q[i]))))
                fail_msg("%s: element %lld is %g, on the reference %g", providers, (long long)i, (double)p[i],
                         (double)q[i]);
    }
    rig_close(&actual);
    rig_close(&expected);
    wire_deinit(&model.wire);
}

#ifdef HAVE_ONEDNN
/* With one thread, libdnnl starts none, also where it packs weights. The first test, before other sessions have
 * threads. */
static void one_thread(void **state)
{
    const int before = thread_count();
    region_model model;
    struct rig rig;

    (void)state;
    write_sequence_model(&model, 3, 3);
    rig = model_open(&model.wire, (const char *const[]){ "providers", "onednn,reference", "policy", "priority",
                                                         "intra_threads", "1", by_option ? "isa" : NULL, cap, NULL });
    assert_int_equal(thread_count(), before);
    rig_close(&rig);
    wire_deinit(&model.wire);
}

static void libdnnl(void **state)
{
    /* values of dnnl_cpu_isa_t: bit masks of the included instruction sets */
    static const unsigned most[] = { 0x1 /* SSE4.1 */, 0x7 /* AVX2 */, 0xff /* BF16 */, 0xffff };
    unsigned (*effective)(void);
    void *symbol;

    (void)state;
    compare_with_reference("onednn,reference", "policy", "priority");
    symbol = opened(DNNL_SONAME, "dnnl_get_effective_cpu_isa");
    assert_non_null(symbol);
    memcpy(&effective, &symbol, sizeof symbol);
    assert_int_equal(effective() & ~most[level_of(cap)], 0);
}
#endif

#ifdef HAVE_OPENBLAS
static void openblas(void **state)
{
    static const char *const not_below[] = { "Haswell|Zen|SkylakeX|Cooperlake|SapphireRapids",
                                             "SkylakeX|Cooperlake|SapphireRapids", "", "" };
    char *(*corename)(void);
    void *symbol;

    (void)state;
    compare_with_reference("openblas,reference", "policy", "priority");
    symbol = opened("libopenblas.so.0", "openblas_get_corename");
    assert_non_null(symbol);
    memcpy(&corename, &symbol, sizeof symbol);
    assert_null(strstr(not_below[level_of(cap)], corename()));
}
#endif

/* A second session of the process may set the same instruction set or none, but no other. */
static void others(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    inlay_options *options = NULL;
    region_model model;
#if defined(__x86_64__)
    const bool has_more = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    const bool has_more = false;
#endif

    (void)state;
    if (strcmp(cap, "baseline") == 0)
        skip(); /* this CPU may have no other instruction set */
    write_sequence_model(&model, 3, 3);
    compare_with_reference("reference", "policy", "priority");
    compare_with_reference("cpu,reference", "policy", "priority");
    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", "cpu,reference", &diag), INLAY_OK);
    assert_int_equal(inlay_session_create_from_bytes(model.wire.bytes, model.wire.count, options, &session, &diag),
                     INLAY_OK);
    inlay_session_destroy(session);
    session = NULL;
    assert_int_equal(inlay_options_set(options, "isa", "baseline", &diag), INLAY_OK);
    if (has_more) {
        assert_int_equal(inlay_session_create_from_bytes(model.wire.bytes, model.wire.count, options, &session, &diag),
                         INLAY_INVALID_ARGUMENT);
        assert_non_null(strstr(diag.text, "isa is 'baseline', but kernels for "));
    }
    assert_null(session);
    inlay_options_destroy(options);
    wire_deinit(&model.wire);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#ifdef HAVE_ONEDNN
        cmocka_unit_test(one_thread),
        cmocka_unit_test(libdnnl),
#endif
#ifdef HAVE_OPENBLAS
        cmocka_unit_test(openblas),
#endif
        cmocka_unit_test(others),
    };

    by_option = argc > 1;
    cap = by_option ? argv[1] : getenv("INLAY_ISA");
    if (cap == NULL)
        cap = "amx";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
