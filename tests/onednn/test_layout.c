/* Layouts that the provider writes, compares and measures without oneDNN are what oneDNN says of them. */
#include "build.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static const struct {
    dnnl_format_tag_t tag;
    const char *text;
    uint32_t rank;
} rows[] = {
    { dnnl_AB16b16a, "AB16b16a", 2 }, { dnnl_AB16b64a, "AB16b64a", 2 }, { dnnl_aBc32b, "aBc32b", 3 },
    { dnnl_Acb32a, "Acb32a", 3 },     { dnnl_aBc8b, "aBc8b", 3 },       { dnnl_Acdb64a, "Acdb64a", 4 },
    { dnnl_Abcd16a, "Abcd16a", 4 },   { dnnl_aBcd16b, "aBcd16b", 4 },   { dnnl_aBdc32b, "aBdc32b", 4 },
    { dnnl_aBdec32b, "aBdec32b", 5 }, { dnnl_aBcde8b, "aBcde8b", 5 },   { dnnl_Abcde16a, "Abcde16a", 5 },
    { dnnl_acdb, "acdb", 4 },         { dnnl_ba, "ba", 2 },
};

/* Sizes of all kinds: one, a part of a block, whole blocks, none. */
static int64_t draw(uint32_t *seed)
{
    static const int64_t sizes[] = { 1, 2, 3, 8, 16, 17, 32, 33, 64, 65, 1, 5, 1, 0 };

    *seed = *seed * 1664525u + 1013904223u;
    return sizes[(*seed >> 16) % (sizeof sizes / sizeof sizes[0])];
}

static void check_same(const rg_md *ours, const rg_md *theirs)
{
    assert_true(dnnl_memory_desc_equal(ours, theirs));
    assert_true(rg_md_equal(ours, theirs));
    assert_true(rg_md_bytes(ours) == dnnl_memory_desc_get_size(theirs));
    assert_memory_equal(ours->format_desc.blocking.strides, theirs->format_desc.blocking.strides,
                        (size_t)ours->ndims * sizeof(int64_t));
}

static void test_layouts(void **state)
{
    uint32_t seed = 7;

    (void)state;
    for (int round = 0; round < 300; round++) {
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            dnnl_dims_t dims = { 0 }, strides;
            rg_md ours, theirs, last;
            bool empty = false;

            for (uint32_t d = 0; d < rows[r].rank; d++) {
                dims[d] = draw(&seed);
                empty |= dims[d] == 0;
            }
            assert_int_equal(dnnl_memory_desc_init_by_tag(&theirs, (int)rows[r].rank, dims, dnnl_f32, rows[r].tag),
                             dnnl_success);
            assert_true(rg_md_blocks(&ours, rows[r].rank, dims, rows[r].text));
            if (empty) {
                assert_true(rg_md_bytes(&ours) == 0 && dnnl_memory_desc_get_size(&theirs) == 0);
                continue;
            }
            check_same(&ours, &theirs);
            rg_md_any(&last, rows[r].rank, dims);
            assert_false(rg_md_equal(&ours, &last));
            memcpy(strides, theirs.format_desc.blocking.strides, sizeof strides);
            if (theirs.format_desc.blocking.inner_nblks > 0)
                continue;
            rg_md_strides(&last, rows[r].rank, dims, strides);
            check_same(&last, &theirs);
            for (uint32_t d = 0; d < rows[r].rank; d++) { /* a step of two: gaps */
                rg_md gaps, wanted;

                strides[d] *= 2;
                rg_md_strides(&gaps, rows[r].rank, dims, strides);
                if (dnnl_memory_desc_init_by_strides(&wanted, (int)rows[r].rank, dims, dnnl_f32, strides) ==
                    dnnl_success) {
                    assert_true(dnnl_memory_desc_equal(&gaps, &wanted));
                    assert_true(rg_md_bytes(&gaps) == dnnl_memory_desc_get_size(&wanted));
                    assert_int_equal(rg_md_equal(&gaps, &theirs), dims[d] == 1);
                }
                strides[d] /= 2;
            }
        }
    }
}

/* Reads every element of a layout at the place that it has in another. */
static void test_copies(void **state)
{
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    uint32_t seed = 11;

    (void)state;
    assert_int_equal(dnnl_engine_create(&engine, dnnl_cpu, 0), dnnl_success);
    assert_int_equal(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), dnnl_success);
    for (int round = 0; round < 150; round++) {
        size_t r = (size_t)round % (sizeof rows / sizeof rows[0]);
        dnnl_primitive_desc_t pd;
        dnnl_primitive_t primitive;
        dnnl_memory_t in, out;
        dnnl_dims_t dims = { 0 };
        size_t plain_bytes, bytes;
        char *source, *ours, *theirs;
        rg_md plain, md;

        for (uint32_t d = 0; d < rows[r].rank; d++)
            do
                dims[d] = draw(&seed);
            while (dims[d] == 0 || (rows[r].rank > 3 && dims[d] > 17));
        rg_md_plain(&plain, rows[r].rank, dims);
        assert_true(rg_md_blocks(&md, rows[r].rank, dims, rows[r].text));
        plain_bytes = rg_md_bytes(&plain);
        bytes = rg_md_bytes(&md);
        source = malloc(plain_bytes + 1);
        ours = malloc(bytes);
        theirs = calloc(1, bytes);
        assert_true(source != NULL && ours != NULL && theirs != NULL);
        memset(ours, 0x55, bytes);
        for (size_t i = 0; i < plain_bytes / sizeof(float); i++)
            memcpy(source + 1 + i * sizeof(float), &(float){ (float)i + 1 }, sizeof(float));
        if (rg_md_copy(&plain, source + 1, &md, ours)) {
            memmove(source, source + 1, plain_bytes);
            assert_int_equal(dnnl_memory_create(&in, &plain, engine, source), dnnl_success);
            assert_int_equal(dnnl_memory_create(&out, &md, engine, theirs), dnnl_success);
            assert_int_equal(dnnl_reorder_primitive_desc_create(&pd, &plain, engine, &md, engine, NULL), dnnl_success);
            assert_int_equal(dnnl_primitive_create(&primitive, pd), dnnl_success);
            assert_int_equal(dnnl_primitive_execute(primitive, stream, 2,
                                                    (dnnl_exec_arg_t[]){ { DNNL_ARG_FROM, in }, { DNNL_ARG_TO, out } }),
                             dnnl_success);
            assert_int_equal(dnnl_stream_wait(stream), dnnl_success);
            assert_memory_equal(ours, theirs, bytes);
            (void)dnnl_primitive_destroy(primitive);
            (void)dnnl_primitive_desc_destroy(pd);
            (void)dnnl_memory_destroy(in);
            (void)dnnl_memory_destroy(out);
        }
        free(source);
        free(ours);
        free(theirs);
    }
    (void)dnnl_stream_destroy(stream);
    (void)dnnl_engine_destroy(engine);
}

static void test_types(void **state)
{
    (void)state;
    for (int t = 0; t <= (int)dnnl_u8; t++)
        assert_true(rg_type_bytes((dnnl_data_type_t)t) ==
                    (t == (int)dnnl_data_type_undef ? 0 : dnnl_data_type_size((dnnl_data_type_t)t)));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_layouts), cmocka_unit_test(test_copies),
                                        cmocka_unit_test(test_types) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
