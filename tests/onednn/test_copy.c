/* Changes of layout by the provider's loops equal those by the library's reorder, bit for bit, for the layouts that its
 * kernels prefer. */
#include "onednn/provider.h"
#include "cmocka_all.h"

struct row {
    const char *what;
    dnnl_format_tag_t plain, other;
    dnnl_data_type_t type; /* of the other layout */
    int rank;
    dnnl_dims_t dims;
};

static const struct row rows[] = {
    { "channels last", dnnl_nchw, dnnl_nhwc, dnnl_f32, 4, { 2, 19, 7, 9 } },
    { "blocks of 16", dnnl_nchw, dnnl_nChw16c, dnnl_f32, 4, { 2, 32, 7, 9 } },
    { "a block that is not full", dnnl_nchw, dnnl_nChw16c, dnnl_f32, 4, { 1, 37, 5, 6 } },
    { "blocks of 8", dnnl_nchw, dnnl_nChw8c, dnnl_f32, 4, { 3, 24, 20, 3 } },
    { "blocks of 4", dnnl_nchw, dnnl_nChw4c, dnnl_f32, 4, { 1, 12, 9, 9 } },
    { "volumes in blocks", dnnl_ncdhw, dnnl_nCdhw16c, dnnl_f32, 5, { 1, 40, 3, 4, 5 } },
    { "volumes, channels last", dnnl_ncdhw, dnnl_ndhwc, dnnl_f32, 5, { 2, 3, 3, 4, 5 } },
    { "rows", dnnl_ncw, dnnl_nwc, dnnl_f32, 3, { 2, 5, 70 } },
    { "weights", dnnl_oihw, dnnl_OIhw16i16o, dnnl_f32, 4, { 40, 20, 3, 3 } },
    { "weights of groups", dnnl_goihw, dnnl_gOIhw4i4o, dnnl_f32, 5, { 4, 8, 4, 3, 3 } },
    { "weights in pairs", dnnl_oihw, dnnl_OIhw8i16o2i, dnnl_bf16, 4, { 33, 18, 3, 1 } },
    { "bfloat16, channels last", dnnl_nchw, dnnl_nhwc, dnnl_bf16, 4, { 1, 19, 7, 9 } },
    { "bfloat16, row-major", dnnl_ab, dnnl_ab, dnnl_bf16, 2, { 30, 77 } },
    { "the same layout", dnnl_ab, dnnl_ab, dnnl_f32, 2, { 30, 77 } },
    { "one element", dnnl_ab, dnnl_ba, dnnl_f32, 2, { 1, 1 } },
};

static library_layout layout_of(const struct row *row, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    library_layout layout = NULL;

#if DNNL_VERSION_MAJOR < 3
    layout = calloc(1, sizeof *layout);
    assert_int_equal(dnnl_memory_desc_init_by_tag(layout, row->rank, row->dims, type, tag), dnnl_success);
#else
    assert_int_equal(dnnl_memory_desc_create_with_tag(&layout, row->rank, row->dims, type, tag), dnnl_success);
#endif
    return layout;
}

static inlay_status serial(void *ctx, inlay_run *run, int64_t count, int64_t grain, inlay_parallel_fn fn, void *user)
{
    (void)ctx, (void)run, (void)grain;
    return fn(user, 0, count, 0);
}

static void reorder(dnnl_engine_t engine, library_const_layout from, float *source, library_const_layout to,
                    void *target)
{
    dnnl_primitive_desc_t description = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_memory_t in = NULL, out = NULL;
    dnnl_stream_t stream = NULL;

    assert_int_equal(dnnl_reorder_primitive_desc_create(&description, from, engine, to, engine, NULL), dnnl_success);
    assert_int_equal(dnnl_primitive_create(&primitive, description), dnnl_success);
    assert_int_equal(dnnl_memory_create(&in, from, engine, source), dnnl_success);
    assert_int_equal(dnnl_memory_create(&out, to, engine, target), dnnl_success);
    assert_int_equal(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), dnnl_success);
    assert_int_equal(dnnl_primitive_execute(primitive, stream, 2,
                                            (const dnnl_exec_arg_t[]){ { DNNL_ARG_FROM, in }, { DNNL_ARG_TO, out } }),
                     dnnl_success);
    assert_int_equal(dnnl_stream_wait(stream), dnnl_success);
    (void)dnnl_stream_destroy(stream);
    (void)dnnl_memory_destroy(in);
    (void)dnnl_memory_destroy(out);
    (void)dnnl_primitive_destroy(primitive);
    (void)dnnl_primitive_desc_destroy(description);
}

static void expect_equal(dnnl_engine_t engine, const struct row *row, library_const_layout from,
                         library_const_layout to)
{
    static const inlay_host host = { .struct_size = sizeof host, .parallel_for = serial };
    const onednn_state state = { .host = &host };
    const size_t source_bytes = dnnl_memory_desc_get_size(from), bytes = dnnl_memory_desc_get_size(to);
    float *source = malloc(source_bytes);
    unsigned char *want = malloc(bytes), *got = malloc(bytes);
    struct copy copy;

    assert_true(source != NULL && want != NULL && got != NULL);
    for (size_t i = 0; i < source_bytes / sizeof *source; i++)
        source[i] = (float)(i * 2654435761u % 100003u) / 77.0f - 500;
    memset(want, 0xff, bytes);
    memset(got, 0xff, bytes);
    reorder(engine, from, source, to, want);
    assert_true(copy_prepare(from, to, &copy));
    assert_int_equal(copy_run(&state, &copy, NULL, source, got), INLAY_OK);
    free(copy.tables);
    if (memcmp(want, got, bytes) != 0)
        fail_msg("%s: the copies differ", row->what);
    free(source);
    free(want);
    free(got);
}

static void copies(void **state)
{
    dnnl_engine_t engine = NULL;

    (void)state;
    assert_int_equal(dnnl_engine_create(&engine, dnnl_cpu, 0), dnnl_success);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        library_layout plain = layout_of(&rows[i], dnnl_f32, rows[i].plain),
                       other = layout_of(&rows[i], rows[i].type, rows[i].other);

        expect_equal(engine, &rows[i], plain, other);
        if (rows[i].type == dnnl_f32)
            expect_equal(engine, &rows[i], other, plain);
        library_layout_destroy(plain);
        library_layout_destroy(other);
    }
    (void)dnnl_engine_destroy(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(copies) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
