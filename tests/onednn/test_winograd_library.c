/* Packed weights of Winograd convolutions, compared with those packed by oneDNN, for every layout that oneDNN 2 uses.
 */
#include "onednn/library_versions.h"
#include "cpu/region/build.h"
#include "cpu/weights/packs.h"
#include "onednn/library_v2.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

struct row {
    int64_t out, in, side;
};

/* Gets the layout of weights that oneDNN uses for a convolution; false: oneDNN has no Winograd convolution here. */
static bool find_winograd_layout(const cpu_state *state, const struct row *row, memory_desc *out)
{
    const int64_t x_dims[] = { 1, row->in, row->side, row->side }, y_dims[] = { 1, row->out, row->side, row->side };
    const int64_t w_dims[] = { row->out, row->in, 3, 3 };
    library_op desc = { .kind = LIBRARY_CONVOLUTION,
                        .alg = LIBRARY_CONVOLUTION_WINOGRAD,
                        .strides = { 1, 1 },
                        .begins = { 1, 1 },
                        .ends = { 1, 1 } };
    library_description pd = NULL;
    bool there;

    memory_desc_any(&desc.input, 4, x_dims);
    memory_desc_any(&desc.weights, 4, w_dims);
    memory_desc_any(&desc.output, 4, y_dims);
    there = library_describe(state->engine, &desc, NULL, &pd) == LIBRARY_SUCCESS;
    if (there)
        (void)library_layout(pd, LIBRARY_OPERAND_WEIGHTS, out);
    library_destroy(pd);
    return there && out->kind == CPU_OPAQUE;
}

static void compare(const cpu_state *state, const struct row *row, const memory_desc *md)
{
    const int64_t dims[] = { row->out, row->in, 3, 3 };
    size_t bytes = memory_desc_bytes(md), worst_at = 0;
    float *expected = NULL, *actual = NULL, *source, worst = 0;
    char *odd;
    memory_desc plain;

    memory_desc_plain(&plain, 4, dims);
    source = malloc(memory_desc_bytes(&plain));
    odd = malloc(memory_desc_bytes(&plain) + 1); /* unaligned, as in files */
    assert_non_null(source);
    assert_non_null(odd);
    assert_int_equal(posix_memalign((void **)&expected, 64, bytes), 0);
    assert_int_equal(posix_memalign((void **)&actual, 64, bytes), 0);
    for (int64_t i = 0; i < memory_desc_count(&plain); i++)
        source[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
    memcpy(odd + 1, source, memory_desc_bytes(&plain));
    memset(actual, 0xff, bytes);
    assert_int_equal(cpu_reorder_now(state, &plain, source, md, expected, NULL), INLAY_OK);
    assert_true(onednn_table.pack_winograd(state, &plain, odd + 1, md, actual));
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        if (!(fabsf(actual[i] - expected[i]) <= worst)) {
            worst = fabsf(actual[i] - expected[i]);
            worst_at = i;
        }
    }
    if (!(worst <= 1e-6f))
        fail_msg("%lldx%lld: element %zu is %g, not %g", (long long)row->out, (long long)row->in, worst_at,
                 (double)actual[worst_at], (double)expected[worst_at]);
    free(source);
    free(odd);
    free(expected);
    free(actual);
}

static void layouts(void **unused)
{
    static const struct row rows[] = { { 64, 64, 56 },   { 128, 128, 28 }, { 256, 64, 28 }, { 64, 256, 14 },
                                       { 96, 48, 40 },   { 112, 80, 100 }, { 48, 16, 20 },  { 33, 17, 24 },
                                       { 512, 512, 7 },  { 20, 100, 30 },  { 64, 3, 224 },  { 256, 256, 13 },
                                       { 128, 32, 112 }, { 40, 40, 14 } };
    cpu_state state = { .winograd = true };
    dnnl_memory_desc_t desc;
    uint32_t seen = 0;
    memory_desc md;
    int before = cpu_threads_set(1);

    (void)unused;
    library_in_use = &onednn_table;
    assert_int_equal(library_engine_create(&state.engine), LIBRARY_SUCCESS);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!find_winograd_layout(&state, &rows[i], &md))
            continue;
        compare(&state, &rows[i], &md);
        library_v2_describe(&md, &desc);
        seen |= 1u << desc.format_desc.wino_desc.wino_format;
    }
    library_engine_destroy(state.engine);
    cpu_threads_restore(before);
    if (seen == 0)
        skip(); /* oneDNN has no Winograd convolutions for this CPU */
}

/* The provider refuses unsupported layouts, for which oneDNN packs the weights. */
static void others(void **unused)
{
    const int64_t dims[] = { 64, 64, 3, 3 };
    float *data = calloc(64 * 64 * 9, sizeof *data);
    cpu_state state = { .winograd = true };
    dnnl_memory_desc_t desc;
    memory_desc plain, strange;

    (void)unused;
    library_in_use = &onednn_table;
    assert_int_equal(library_engine_create(&state.engine), LIBRARY_SUCCESS);
    memory_desc_plain(&plain, 4, dims);
    assert_false(onednn_table.pack_winograd(&state, &plain, data, &plain, data));
    library_v2_describe(&plain, &desc);
    desc.format_kind = dnnl_format_kind_wino;
    desc.format_desc.wino_desc = (dnnl_wino_desc_t){
        .wino_format = dnnl_wino_wei_aaOIoi, .r = 3, .alpha = 4, .oc = 64, .ic = 64, .oc_block = 16, .ic_block = 16
    };
    assert_true(library_v2_read(&desc, &strange));
    assert_false(onednn_table.pack_winograd(&state, &plain, data, &strange, data));
    desc.format_desc.wino_desc.wino_format = dnnl_wino_wei_aaOio; /* a supported format with a wrong size */
    assert_true(library_v2_read(&desc, &strange));
    assert_false(onednn_table.pack_winograd(&state, &plain, data, &strange, data));
    library_engine_destroy(state.engine);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(layouts), cmocka_unit_test(others) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
