/* The library's cache of primitives, which all sessions of a process share: sessions with different numbers of threads
 * get the results of the first one. Run with MALLOC_PERTURB_, so that kernels made of freed memory are wrong. */
#include "compare.h"
#include <dlfcn.h>
#include <string.h>

static const char *const scripts[] = {
    "x : 64,513\nw = [513,64]\nb = [64]\nk = MatMul(x, w)\nm = Add(k, b)\ny = Relu(m)\n-> y",
    "x : 64,96\nw = [96,700]\nz : 64,700\nk = MatMul(x, w)\nm = Add(k, z)\ny = Relu(m)\n-> y",
    "x : 33,127\nw = [127,48]\nb = [48]\nk = Gemm(x, w, b)\ny = Gelu(k)\n-> y",
    "x : 1,64,14,14\nw = [64,64,3,3]\nz : 1,64,14,14\nk = Conv(x, w) pads=1,1,1,1\nm = Add(k, z)\ny = Relu(m)\n-> y",
    "x : 1,64,14,14\nw = [128,64,1,1]\nk = Conv(x, w)\ny = Sigmoid(k)\n-> y",
    "x : 1,64,7,7\nw = [64,32,2,2]\nk = ConvTranspose(x, w) strides=2,2\ny = Relu(k)\n-> y",
};

static struct rig open_script(const char *script, const char *precision, const char *threads)
{
    struct wire wire = { 0 };

    script_model(&wire, 20, script);
    return rig_open(&wire, (const char *const[]){ "providers", "onednn,reference", "policy", "priority", "precision",
                                                  precision, "intra_threads", threads, NULL });
}

static void expect_same_bits(const char *script, const char *precision)
{
    struct rig first = open_script(script, precision, "1");

    script_feed(&first, 1);
    rig_run(&first);
    for (int i = 0; i < 6; i++) {
        struct rig other = open_script(script, precision, i % 2 == 0 ? "2" : "1");
        const inlay_value *expected = inlay_context_output(first.context, 0), *actual;

        script_feed(&other, 1);
        rig_run(&other);
        actual = inlay_context_output(other.context, 0);
        assert_int_equal(inlay_value_bytes(actual), inlay_value_bytes(expected));
        if (memcmp(inlay_value_data(actual), inlay_value_data(expected), inlay_value_bytes(expected)) != 0)
            fail_msg("session %d with precision=%s has other results, in\n%s", i, precision, script);
        rig_close(&other);
    }
    rig_close(&first);
}

static void sessions_of_other_threads(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        expect_same_bits(scripts[i], "f32");
        expect_same_bits(scripts[i], "reduced");
    }
}

/* A function of the library that the plugin has opened. */
static void find(const char *name, void *out_function)
{
    void *library = dlopen(DNNL_SONAME, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD), *symbol;

    assert_non_null(library);
    symbol = dlsym(library, name);
    assert_non_null(symbol);
    memcpy(out_function, &symbol, sizeof symbol);
    assert_int_equal(dlclose(library), 0);
}

typedef struct library_version { /* the first members of dnnl_version_t */
    int major, minor;
} library_version;

/* Before version 3.4 the cache's descriptions point to attributes that no longer exist: it is off. */
static void capacity(void **state)
{
    const library_version *(*version)(void);
    int (*get)(int *), capacity = -1;

    (void)state;
    find("dnnl_version", &version);
    find("dnnl_get_primitive_cache_capacity", &get);
    assert_int_equal(get(&capacity), 0);
    assert_int_equal(capacity != 0, version()->major > 3 || (version()->major == 3 && version()->minor >= 4));
}

/* An application that uses the library may enlarge the cache again. */
static void cache_of_the_application(void **state)
{
    int (*set)(int);

    find("dnnl_set_primitive_cache_capacity", &set);
    assert_int_equal(set(1024), 0);
    sessions_of_other_threads(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(sessions_of_other_threads), cmocka_unit_test(capacity),
                                        cmocka_unit_test(cache_of_the_application) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
