/* Weights of Winograd's convolutions, ours beside oneDNN's, for every layout that it asks for. */
#include "build.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

typedef struct row {
    int64_t out, in, side;
} row;

/* The layout that oneDNN wants for such a convolution; false: no Winograd for it on this CPU. */
static bool wanted(const rg_state *state, const row *r, rg_md *out)
{
    const int64_t x_dims[] = { 1, r->in, r->side, r->side }, y_dims[] = { 1, r->out, r->side, r->side };
    const int64_t w_dims[] = { r->out, r->in, 3, 3 };
    const dnnl_dims_t one = { 1, 1 }, zero = { 0, 0 };
    dnnl_convolution_desc_t desc;
    dnnl_primitive_desc_t pd = NULL;
    rg_md x, w, y;
    bool there;

    rg_md_any(&x, 4, x_dims);
    rg_md_any(&w, 4, w_dims);
    rg_md_any(&y, 4, y_dims);
    there = dnnl_dilated_convolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_convolution_winograd, &x, &w,
                                                       NULL, &y, one, zero, one, one) == dnnl_success &&
            dnnl_primitive_desc_create(&pd, &desc, NULL, state->engine, NULL) == dnnl_success;
    if (there)
        *out = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    (void)dnnl_primitive_desc_destroy(pd);
    return there && out->format_kind == dnnl_format_kind_wino;
}

static void compare(const rg_state *state, const row *r, const rg_md *md)
{
    const int64_t dims[] = { r->out, r->in, 3, 3 };
    size_t bytes = rg_md_bytes(md), worst_at = 0;
    float *theirs = NULL, *ours = NULL, *source, worst = 0;
    char *odd;
    rg_md plain;

    rg_md_plain(&plain, 4, dims);
    source = malloc(rg_md_bytes(&plain));
    odd = malloc(rg_md_bytes(&plain) + 1); /* files align nothing */
    assert_non_null(source);
    assert_non_null(odd);
    assert_int_equal(posix_memalign((void **)&theirs, 64, bytes), 0);
    assert_int_equal(posix_memalign((void **)&ours, 64, bytes), 0);
    for (int64_t i = 0; i < rg_md_count(&plain); i++)
        source[i] = (float)(i * 7919 % 1009) / 1009 - 0.5f;
    memcpy(odd + 1, source, rg_md_bytes(&plain));
    memset(ours, 0xff, bytes);
    assert_int_equal(rg_reorder_now(state, &plain, source, md, theirs, NULL), INLAY_OK);
    assert_true(rg_winograd_pack(state, &plain, odd + 1, md, ours));
    for (size_t i = 0; i < bytes / sizeof(float); i++) {
        if (!(fabsf(ours[i] - theirs[i]) <= worst)) {
            worst = fabsf(ours[i] - theirs[i]);
            worst_at = i;
        }
    }
    if (!(worst <= 1e-6f))
        fail_msg("%lldx%lld: element %zu is %g, not %g", (long long)r->out, (long long)r->in, worst_at,
                 (double)ours[worst_at], (double)theirs[worst_at]);
    free(source);
    free(odd);
    free(theirs);
    free(ours);
}

static void layouts(void **unused)
{
    static const row rows[] = { { 64, 64, 56 },   { 128, 128, 28 }, { 256, 64, 28 },  { 64, 256, 14 }, { 96, 48, 40 },
                                { 112, 80, 100 }, { 48, 16, 20 },   { 33, 17, 24 },   { 512, 512, 7 }, { 20, 100, 30 },
                                { 64, 3, 224 },   { 256, 256, 13 }, { 128, 32, 112 }, { 40, 40, 14 } };
    rg_state state = { .winograd = true };
    uint32_t seen = 0;
    rg_md md;
    int before = rg_threads_set(1);

    (void)unused;
    assert_int_equal(dnnl_engine_create(&state.engine, dnnl_cpu, 0), dnnl_success);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!wanted(&state, &rows[i], &md))
            continue;
        compare(&state, &rows[i], &md);
        seen |= 1u << md.format_desc.wino_desc.wino_format;
    }
    (void)dnnl_engine_destroy(state.engine);
    rg_threads_restore(before);
    if (seen == 0)
        skip(); /* oneDNN has no Winograd's convolutions for this CPU */
}

/* What it does not know is left to oneDNN. */
static void others(void **unused)
{
    const int64_t dims[] = { 64, 64, 3, 3 };
    float *data = calloc(64 * 64 * 9, sizeof *data);
    rg_state state = { .winograd = true };
    rg_md plain, strange;

    (void)unused;
    rg_md_plain(&plain, 4, dims);
    assert_false(rg_winograd_pack(&state, &plain, data, &plain, data));
    strange = plain;
    strange.format_kind = dnnl_format_kind_wino;
    strange.format_desc.wino_desc = (dnnl_wino_desc_t){ .wino_format = dnnl_wino_wei_aaOIoi, .r = 3, .alpha = 4,
                                                        .oc = 64, .ic = 64, .oc_block = 16, .ic_block = 16 };
    assert_false(rg_winograd_pack(&state, &plain, data, &strange, data));
    strange.format_desc.wino_desc.wino_format = dnnl_wino_wei_aaOio; /* but the size is not what follows */
    assert_false(rg_winograd_pack(&state, &plain, data, &strange, data));
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(layouts), cmocka_unit_test(others) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
