/* Layouts that the provider computes, compares and measures without oneDNN agree with oneDNN's descriptors. */
#include "onednn/library_versions.h"
#include "cpu/region/build.h"
#include "expected_layout.h"
#include "random.h"
#include <oneapi/dnnl/dnnl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct {
    dnnl_format_tag_t tag;
    const char *text;
    uint32_t rank;
} rows[] = {
    { dnnl_AB16b16a, "AB16b16a", 2 }, { dnnl_AB16b64a, "AB16b64a", 2 },
    { dnnl_aBc32b, "aBc32b", 3 },     { dnnl_Acb32a, "Acb32a", 3 },
    { dnnl_aBc8b, "aBc8b", 3 },       { dnnl_Acdb64a, "Acdb64a", 4 },
    { dnnl_Abcd16a, "Abcd16a", 4 },   { dnnl_aBcd16b, "aBcd16b", 4 },
    { dnnl_aBdc32b, "aBdc32b", 4 },   { dnnl_aBdec32b, "aBdec32b", 5 },
    { dnnl_aBcde8b, "aBcde8b", 5 },   { dnnl_Abcde16a, "Abcde16a", 5 },
    { dnnl_acdb, "acdb", 4 },         { dnnl_ba, "ba", 2 },
};

/* Draws a size of any kind: one, a part of a block, whole blocks, zero. */
static int64_t draw(uint64_t *seed)
{
    static const int64_t sizes[] = { 1, 2, 3, 8, 16, 17, 32, 33, 64, 65, 1, 5, 1, 0 };

    return sizes[random_below(seed, sizeof sizes / sizeof sizes[0])];
}

static void check_same(const memory_desc *actual, const expected_layout *expected)
{
    const size_t n = (size_t)actual->ndims * sizeof(int64_t);

    assert_int_equal(memory_desc_bytes(actual), expected->bytes);
    assert_memory_equal(actual->strides, expected->strides, n);
    assert_memory_equal(actual->padded_dims, expected->padded_dims, n);
    assert_int_equal(actual->inner_nblks, expected->inner_nblks);
    assert_memory_equal(actual->inner_blks, expected->inner_blks, (size_t)actual->inner_nblks * sizeof(int64_t));
    assert_memory_equal(actual->inner_idxs, expected->inner_idxs, (size_t)actual->inner_nblks * sizeof(int64_t));
    assert_true(library_knows(actual));
}

static void check_gaps(uint32_t rank, const int64_t *dims, const expected_layout *expected, const memory_desc *actual)
{
    int64_t strides[DNNL_MAX_NDIMS];

    memcpy(strides, expected->strides, sizeof strides);
    for (uint32_t d = 0; d < rank; d++) { /* a doubled stride makes gaps */
        expected_layout wanted;
        memory_desc gaps;

        strides[d] *= 2;
        memory_desc_strides(&gaps, rank, dims, strides);
        if (expected_layout_of_strides(rank, dims, strides, &wanted)) {
            check_same(&gaps, &wanted);
            assert_int_equal(memory_desc_equal(&gaps, actual), dims[d] == 1);
        }
        strides[d] /= 2;
    }
}

static void test_layouts(void **state)
{
    uint64_t seed = 7;

    (void)state;
    for (int round = 0; round < 300; round++) {
        for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
            const uint32_t rank = rows[row].rank;
            dnnl_dims_t dims = { 0 };
            expected_layout expected;
            memory_desc actual, last;
            bool empty = false;

            for (uint32_t d = 0; d < rank; d++) {
                dims[d] = draw(&seed);
                empty |= dims[d] == 0;
            }
            assert_true(expected_layout_of_tag(rows[row].tag, rank, dims, &expected));
            assert_true(memory_desc_blocks(&actual, rank, dims, rows[row].text));
            if (empty) {
                assert_true(memory_desc_bytes(&actual) == 0 && expected.bytes == 0);
                continue;
            }
            check_same(&actual, &expected);
            memory_desc_any(&last, rank, dims);
            assert_false(memory_desc_equal(&actual, &last));
            if (expected.inner_nblks > 0)
                continue;
            memory_desc_strides(&last, rank, dims, expected.strides);
            check_same(&last, &expected);
            assert_true(memory_desc_equal(&actual, &last));
            check_gaps(rank, dims, &expected, &actual);
        }
    }
}

/* Layouts passed to a descriptor are read back from it unchanged. */
static void test_descriptors(void **state)
{
    library_engine engine;
    uint64_t seed = 3;

    (void)state;
    library_in_use = &onednn_table;
    assert_int_equal(library_engine_create(&engine), LIBRARY_SUCCESS);
    for (int round = 0; round < 300; round++) {
        const size_t row = (size_t)round % (sizeof rows / sizeof rows[0]);
        library_description pd = NULL;
        dnnl_dims_t dims = { 0 };
        memory_desc plain, md, back;

        for (uint32_t d = 0; d < rows[row].rank; d++)
            do
                dims[d] = draw(&seed);
            while (dims[d] == 0);
        memory_desc_plain(&plain, rows[row].rank, dims);
        assert_true(memory_desc_blocks(&md, rows[row].rank, dims, rows[row].text));
        assert_int_equal(library_describe_reorder(engine, &plain, &md, &pd), LIBRARY_SUCCESS);
        assert_true(memory_desc_equal(library_layout(pd, LIBRARY_OPERAND_SRC, &back), &plain));
        assert_true(memory_desc_equal(library_layout(pd, LIBRARY_OPERAND_DST, &back), &md));
        assert_int_equal(library_layout(pd, LIBRARY_OPERAND_WEIGHTS, &back)->ndims, 0);
        assert_string_not_equal(library_name(pd), "");
        library_destroy(pd);
    }
    library_engine_destroy(engine);
}

/* Copies between layouts by plain loops give the same as oneDNN's reorders. */
static void test_copies(void **state)
{
    library_engine engine;
    uint64_t seed = 11;

    (void)state;
    library_in_use = &onednn_table;
    assert_int_equal(library_engine_create(&engine), LIBRARY_SUCCESS);
    for (int round = 0; round < 150; round++) {
        size_t row = (size_t)round % (sizeof rows / sizeof rows[0]);
        dnnl_dims_t dims = { 0 };
        size_t plain_bytes, bytes;
        char *source, *actual, *expected;
        memory_desc plain, md;

        for (uint32_t d = 0; d < rows[row].rank; d++)
            do
                dims[d] = draw(&seed);
            while (dims[d] == 0 || (rows[row].rank > 3 && dims[d] > 17));
        memory_desc_plain(&plain, rows[row].rank, dims);
        assert_true(memory_desc_blocks(&md, rows[row].rank, dims, rows[row].text));
        plain_bytes = memory_desc_bytes(&plain);
        bytes = memory_desc_bytes(&md);
        source = malloc(plain_bytes + 1);
        actual = malloc(bytes);
        expected = calloc(1, bytes);
        assert_true(source != NULL && actual != NULL && expected != NULL);
        memset(actual, 0x55, bytes);
        for (size_t i = 0; i < plain_bytes / sizeof(float); i++)
            memcpy(source + 1 + i * sizeof(float), &(float){ (float)i + 1 }, sizeof(float));
        if (memory_desc_copy(&plain, source + 1, &md, actual)) {
            memmove(source, source + 1, plain_bytes);
            assert_int_equal(library_reorder(engine, &plain, source, &md, expected, NULL, NULL), LIBRARY_SUCCESS);
            assert_memory_equal(actual, expected, bytes);
        }
        free(source);
        free(actual);
        free(expected);
    }
    library_engine_destroy(engine);
}

/* A matrix reordered in parts equals the matrix reordered at once. */
static void test_parts(void **state)
{
    enum { ROWS = 150, COLUMNS = 70, STEP = 64 };
    const dnnl_dims_t whole = { ROWS, COLUMNS };
    float source[ROWS * COLUMNS], *at_once, *in_parts;
    library_engine engine;
    memory_desc plain, md;

    (void)state;
    library_in_use = &onednn_table;
    assert_int_equal(library_engine_create(&engine), LIBRARY_SUCCESS);
    memory_desc_plain(&plain, 2, whole);
    assert_true(memory_desc_blocks(&md, 2, whole, "AB16b64a"));
    at_once = calloc(1, memory_desc_bytes(&md));
    in_parts = calloc(1, memory_desc_bytes(&md));
    assert_true(at_once != NULL && in_parts != NULL);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        source[i] = (float)i + 1;
    assert_int_equal(library_reorder(engine, &plain, source, &md, at_once, NULL, NULL), LIBRARY_SUCCESS);
    for (int64_t at = 0; at < ROWS; at += STEP) {
        const dnnl_dims_t dims = { ROWS - at < STEP ? ROWS - at : STEP, COLUMNS }, offsets = { at, 0 };

        assert_int_equal(library_reorder(engine, &plain, source, &md, in_parts, dims, offsets), LIBRARY_SUCCESS);
    }
    assert_memory_equal(at_once, in_parts, memory_desc_bytes(&md));
    memset(in_parts, 0, memory_desc_bytes(&md)); /* the same with the plain loops of provider cpu */
    for (int64_t at = 0; at < ROWS; at += STEP) {
        const library_dims dims = { ROWS - at < STEP ? ROWS - at : STEP, COLUMNS }, first = { at, 0 };

        assert_true(memory_desc_copy_part(&plain, source, &md, in_parts, dims, first));
    }
    assert_memory_equal(at_once, in_parts, memory_desc_bytes(&md));
    free(at_once);
    free(in_parts);
    library_engine_destroy(engine);
}

static void test_types(void **state)
{
    (void)state;
    for (int t = 0; t <= (int)dnnl_u8; t++)
        assert_true(cpu_type_bytes((library_type)t) ==
                    (t == (int)dnnl_data_type_undef ? 0 : dnnl_data_type_size((dnnl_data_type_t)t)));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_layouts), cmocka_unit_test(test_descriptors),
                                        cmocka_unit_test(test_copies), cmocka_unit_test(test_parts),
                                        cmocka_unit_test(test_types) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
