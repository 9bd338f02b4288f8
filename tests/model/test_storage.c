/* All storage formats of TensorProto give the same elements, for every element type. */
#include "cmocka_all.h"
#include "model/model.h"
#include "model_writer.h"
#include <stdlib.h>

enum { COUNT = 12 }; /* whole bytes for every sub-byte type */

/* For each type, the field that contains the elements without raw_data, and the number of tensor bytes per entry. */
static const struct {
    inlay_dtype dtype;
    uint32_t field;
    uint32_t entry_bytes;
    bool varint;
} rows[] = {
    { INLAY_FLOAT, 4, 4, false },         { INLAY_UINT8, 5, 1, true },          { INLAY_INT8, 5, 1, true },
    { INLAY_UINT16, 5, 2, true },         { INLAY_INT16, 5, 2, true },          { INLAY_INT32, 5, 4, true },
    { INLAY_INT64, 7, 8, true },          { INLAY_BOOL, 5, 1, true },           { INLAY_FLOAT16, 5, 2, true },
    { INLAY_DOUBLE, 10, 8, false },       { INLAY_UINT32, 11, 4, true },        { INLAY_UINT64, 11, 8, true },
    { INLAY_COMPLEX64, 4, 4, false },     { INLAY_COMPLEX128, 10, 8, false },   { INLAY_BFLOAT16, 5, 2, true },
    { INLAY_FLOAT8E4M3FN, 5, 1, true },   { INLAY_FLOAT8E4M3FNUZ, 5, 1, true }, { INLAY_FLOAT8E5M2, 5, 1, true },
    { INLAY_FLOAT8E5M2FNUZ, 5, 1, true }, { INLAY_UINT4, 5, 1, true },          { INLAY_INT4, 5, 1, true },
    { INLAY_FLOAT4E2M1, 5, 1, true },     { INLAY_FLOAT8E8M0, 5, 1, true },     { INLAY_UINT2, 5, 1, true },
    { INLAY_INT2, 5, 1, true },
};
enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

enum { RAW, PACKED, SINGLE, TWO_PARTS, SIGNED, SPARSE, SPARSE_2D, FORM_COUNT };

static size_t pattern(uint8_t *bytes, inlay_dtype dtype)
{
    size_t count = COUNT * inlay_dtype_bits(dtype) / 8;

    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(dtype == INLAY_BOOL ? i % 2 : i * 37 + 1);
    return count;
}

static void put_entry(struct wire *wire, uint32_t row, const uint8_t *entry, bool sign_extend)
{
    uint64_t value = 0;
    uint32_t bits = rows[row].entry_bytes * 8;

    memcpy(&value, entry, rows[row].entry_bytes);
    if (!rows[row].varint) {
        wire_raw(wire, entry, rows[row].entry_bytes);
        return;
    }
    if (sign_extend && bits < 64 && value >> (bits - 1))
        value |= ~UINT64_C(0) << bits;
    for (; value > 0x7f; value >>= 7)
        wire_raw(wire, &(uint8_t){ (uint8_t)(value | 0x80) }, 1);
    wire_raw(wire, &(uint8_t){ (uint8_t)value }, 1);
}

/* Writes entries [from, to) as one packed field. */
static void put_packed(struct wire *wire, uint32_t row, const uint8_t *bytes, size_t from, size_t to, bool sign_extend)
{
    wire_mark mark = wire_begin(wire, rows[row].field);

    for (size_t i = from; i < to; i++)
        put_entry(wire, row, bytes + i * rows[row].entry_bytes, sign_extend);
    wire_end(wire, mark);
}

static void put_elements(struct wire *wire, uint32_t row, int form, const uint8_t *bytes, size_t count)
{
    size_t entries = count / rows[row].entry_bytes, half = entries / 3;
    uint32_t tag = rows[row].field << 3 | (rows[row].varint ? 0u : rows[row].entry_bytes == 8 ? 1u : 5u);

    switch (form) {
    case RAW:
    case SPARSE:
    case SPARSE_2D:
        wire_bytes(wire, 9, bytes, count);
        break;
    case PACKED:
    case SIGNED:
        put_packed(wire, row, bytes, 0, entries, form == SIGNED);
        break;
    case SINGLE:
        for (size_t i = 0; i < entries; i++) {
            wire_raw(wire, &(uint8_t){ (uint8_t)tag }, 1);
            put_entry(wire, row, bytes + i * rows[row].entry_bytes, false);
        }
        break;
    default:
        put_packed(wire, row, bytes, 0, half, false);
        put_packed(wire, row, bytes, half, entries, false);
        break;
    }
}

/* Writes a SparseTensorProto that lists all elements, with linear indices (SPARSE) or one index per axis
 * (SPARSE_2D). */
static void put_sparse(struct wire *wire, uint32_t row, int form, const uint8_t *bytes, size_t count)
{
    wire_mark sparse = wire_begin(wire, MW_SPARSE), part;
    int64_t indices[2 * COUNT], dims[2] = { COUNT, 2 };

    part = wire_begin(wire, 1);
    mw_tensor_head(wire, "c", rows[row].dtype, 1, dims);
    put_elements(wire, row, form, bytes, count);
    wire_end(wire, part);
    for (int64_t i = 0; i < COUNT; i++) {
        if (form == SPARSE) {
            indices[i] = i;
        } else {
            indices[2 * i] = i / 4;
            indices[2 * i + 1] = i % 4;
        }
    }
    part = wire_begin(wire, 2);
    mw_tensor_head(wire, NULL, INLAY_INT64, form == SPARSE ? 1 : 2, dims);
    wire_ints(wire, 7, indices, form == SPARSE ? COUNT : 2 * COUNT);
    wire_end(wire, part);
    wire_ints(wire, 3, (int64_t[]){ 3, 4 }, 2);
    wire_end(wire, sparse);
}

static void every_form_of_every_type(void **state)
{
    (void)state;
    for (uint32_t row = 0; row < ROW_COUNT; row++) {
        for (int form = 0; form < FORM_COUNT; form++) {
            struct wire wire = { 0 };
            wire_mark mark = mw_begin(&wire, 13, 21), t;
            uint8_t bytes[COUNT * 16];
            size_t count = pattern(bytes, rows[row].dtype);
            inlay_diag diag = INLAY_DIAG_INIT;
            graph_model *model;

            if (form == SPARSE || form == SPARSE_2D) {
                put_sparse(&wire, row, form, bytes, count);
            } else {
                t = wire_begin(&wire, MW_INITIALIZER);
                mw_tensor_head(&wire, "c", rows[row].dtype, 2, (int64_t[]){ 3, 4 });
                put_elements(&wire, row, form, bytes, count);
                wire_end(&wire, t);
            }
            mw_value(&wire, MW_OUTPUT, "c", rows[row].dtype, "3,4");
            wire_end(&wire, mark);
            if (model_load_bytes(wire.bytes, wire.count, NULL, &model, &diag) != INLAY_OK)
                fail_msg("%s, form %d: %s", inlay_dtype_name(rows[row].dtype), form, diag.text);
            const inlay_value_info *info = &model->main->values[model->main->outputs[0]].info;
            assert_int_equal(info->dtype, rows[row].dtype);
            assert_int_equal(info->rank, 2);
            assert_int_equal(info->dims[0].value, 3);
            assert_int_equal(info->data_bytes, count);
            if (memcmp(info->data, bytes, count) != 0)
                fail_msg("%s, form %d: other elements", inlay_dtype_name(rows[row].dtype), form);
            assert_true(info->flags & INLAY_VALUE_CONSTANT);
            graph_model_destroy(model);
            wire_deinit(&wire);
        }
    }
}

static void all_types_have_a_row(void **state)
{
    uint64_t seen = INLAY_DTYPE_BIT(INLAY_STRING);

    (void)state;
    for (uint32_t row = 0; row < ROW_COUNT; row++)
        seen |= INLAY_DTYPE_BIT(rows[row].dtype);
    assert_int_equal(seen, (1u << INLAY_DTYPE_COUNT) - 2);
}

static graph_model *load_one(void (*fill)(struct wire *), struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17), t = wire_begin(wire, MW_INITIALIZER);
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model;

    fill(wire);
    wire_end(wire, t);
    wire_end(wire, mark);
    if (model_load_bytes(wire->bytes, wire->count, NULL, &model, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return model;
}

static void fill_strings(struct wire *wire)
{
    mw_tensor_head(wire, "s", INLAY_STRING, 1, (int64_t[]){ 3 });
    wire_text(wire, 6, "one");
    wire_text(wire, 6, "");
    wire_bytes(wire, 6, "a\0b", 3);
}

static void strings(void **state)
{
    struct wire wire = { 0 };
    graph_model *model = load_one(fill_strings, &wire);
    const inlay_str *string = model->main->values[0].info.data;

    (void)state;
    assert_int_equal(model->main->values[0].info.data_bytes, 3 * sizeof *string);
    assert_int_equal(string[0].bytes, 3);
    assert_memory_equal(string[0].data, "one", 3);
    assert_int_equal(string[1].bytes, 0);
    assert_non_null(string[1].data);
    assert_int_equal(string[2].bytes, 3);
    assert_memory_equal(string[2].data, "a\0b", 3);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

static void fill_scalar(struct wire *wire)
{
    mw_tensor_head(wire, "s", INLAY_FLOAT, 0, NULL);
    wire_bytes(wire, 9, &(float){ 2.5f }, 4);
}

static void fill_empty(struct wire *wire)
{
    mw_tensor_head(wire, "s", INLAY_INT64, 2, (int64_t[]){ 3, 0 });
}

static void scalars_and_empty_tensors(void **state)
{
    struct wire wire = { 0 };
    graph_model *model = load_one(fill_scalar, &wire);

    (void)state;
    assert_int_equal(model->main->values[0].info.rank, 0);
    assert_memory_equal(model->main->values[0].info.data, &(float){ 2.5f }, 4);
    graph_model_destroy(model);
    wire_deinit(&wire);

    model = load_one(fill_empty, &wire);
    assert_int_equal(model->main->values[0].info.data_bytes, 0);
    assert_non_null(model->main->values[0].info.data);
    assert_int_equal(model->main->values[0].info.dims[1].value, 0);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

static void fill_raw(struct wire *wire)
{
    float values[300];

    for (int i = 0; i < 300; i++)
        values[i] = (float)i;
    mw_tensor_head(wire, "s", INLAY_FLOAT, 1, (int64_t[]){ 300 });
    wire_bytes(wire, 9, values, sizeof values);
}

static void raw_data_is_not_copied(void **state)
{
    struct wire wire = { 0 };
    graph_model *model = load_one(fill_raw, &wire);
    const uint8_t *data = model->main->values[0].info.data;

    (void)state;
    assert_true(data > wire.bytes && data < wire.bytes + wire.count);
    graph_model_destroy(model);
    wire_deinit(&wire);
}

/* Invalid tensors and the expected messages. */
static const struct {
    const char *what;
    inlay_dtype dtype;
    uint32_t rank;
    int64_t dims[3];
    uint32_t field; /* of the payload; 0 = none */
    uint32_t bytes; /* of it, zeros */
    inlay_status status;
    const char *text;
} wrong[] = {
    { "no data", INLAY_FLOAT, 1, { 4 }, 0, 0, INLAY_INVALID_MODEL, "tensor 't': has no data" },
    { "short raw",
      INLAY_FLOAT,
      1,
      { 4 },
      9,
      15,
      INLAY_INVALID_MODEL,
      "raw_data holds 15 bytes, but 4 elements of float need 16" },
    { "long raw", INLAY_FLOAT, 1, { 4 }, 9, 20, INLAY_INVALID_MODEL, "raw_data holds 20 bytes" },
    { "wrong field",
      INLAY_FLOAT,
      1,
      { 4 },
      10,
      32,
      INLAY_INVALID_MODEL,
      "has double_data, but elements of float are stored in raw_data or float_data" },
    { "short ints", INLAY_INT32, 1, { 4 }, 5, 3, INLAY_INVALID_MODEL, "int32_data holds 3 of 4 elements" },
    { "many ints", INLAY_INT64, 1, { 4 }, 7, 5, INLAY_INVALID_MODEL, "int64_data holds 5 of 4 elements" },
    { "raw strings", INLAY_STRING, 1, { 1 }, 9, 1, INLAY_INVALID_MODEL, "strings cannot be raw_data" },
    { "few strings", INLAY_STRING, 1, { 2 }, 6, 1, INLAY_INVALID_MODEL, "string_data holds 1 of 2 elements" },
    { "undefined", INLAY_UNDEFINED, 1, { 1 }, 9, 1, INLAY_INVALID_MODEL, "has no data_type" },
    { "future type", 27, 1, { 1 }, 9, 1, INLAY_UNSUPPORTED, "has element type 27" },
    { "negative", INLAY_FLOAT, 2, { 4, -1 }, 9, 4, INLAY_INVALID_MODEL, "dimension 1 is -1" },
    { "overflow", INLAY_FLOAT, 3, { INT64_MAX, INT64_MAX, 2 }, 9, 4, INLAY_INVALID_MODEL, "dimensions overflow" },
    { "overflow in bits", INLAY_DOUBLE, 1, { INT64_MAX / 2 }, 9, 4, INLAY_INVALID_MODEL, "dimensions overflow" },
    { "huge", INLAY_FLOAT, 1, { INT64_C(1) << 40 }, 9, 4, INLAY_LIMIT_EXCEEDED, "tensor_bytes" },
    { "empty with data", INLAY_FLOAT, 1, { 0 }, 9, 4, INLAY_INVALID_MODEL, "raw_data holds 4 bytes, but 0 elements" },
};

static void wrong_tensors(void **state)
{
    static const uint8_t zeros[64];

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 8, 17), t = wire_begin(&wire, MW_INITIALIZER);
        inlay_diag diag = INLAY_DIAG_INIT;
        graph_model *model;

        mw_tensor_head(&wire, "t", wrong[i].dtype, wrong[i].rank, wrong[i].dims);
        if (wrong[i].field != 0)
            wire_bytes(&wire, wrong[i].field, zeros, wrong[i].bytes);
        wire_end(&wire, t);
        wire_end(&wire, mark);
        if (model_load_bytes(wire.bytes, wire.count, NULL, &model, &diag) != wrong[i].status)
            fail_msg("%s: status %d, %s", wrong[i].what, diag.code, diag.text);
        if (strstr(diag.text, wrong[i].text) == NULL || strchr(diag.text, '\n') != NULL)
            fail_msg("%s: %s", wrong[i].what, diag.text);
        assert_string_equal(diag.tensor, "t");
        wire_deinit(&wire);
    }
}

static void fill_wide_int(struct wire *wire)
{
    mw_tensor_head(wire, "t", INLAY_UINT8, 1, (int64_t[]){ 2 });
    wire_ints(wire, 5, (int64_t[]){ 255, 256 }, 2);
}

static void fill_two_payloads(struct wire *wire)
{
    mw_tensor_head(wire, "t", INLAY_INT32, 1, (int64_t[]){ 1 });
    wire_ints(wire, 5, (int64_t[]){ 1 }, 1);
    wire_bytes(wire, 9, "abcd", 4);
}

static void fill_forged_place(struct wire *wire)
{
    uint64_t place[3] = { 9, 1u << 30, 4 };

    mw_tensor_head(wire, "t", INLAY_INT32, 1, (int64_t[]){ 1 });
    wire_bytes(wire, 1000, place, sizeof place);
}

static void wrong_payloads(void **state)
{
    static const struct {
        void (*fill)(struct wire *);
        const char *text;
    } cases[] = {
        { fill_wide_int, "element 1 of int32_data is 256, which is not a valid uint8" },
        { fill_two_payloads, "has both int32_data and raw_data" },
        { fill_forged_place, "has no data" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 8, 17), t = wire_begin(&wire, MW_INITIALIZER);
        inlay_diag diag = INLAY_DIAG_INIT;
        graph_model *model;

        cases[i].fill(&wire);
        wire_end(&wire, t);
        wire_end(&wire, mark);
        assert_int_equal(model_load_bytes(wire.bytes, wire.count, NULL, &model, &diag), INLAY_INVALID_MODEL);
        if (strstr(diag.text, cases[i].text) == NULL)
            fail_msg("%s", diag.text);
        wire_deinit(&wire);
    }
}

static void sparse_limits(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), sparse = wire_begin(&wire, MW_SPARSE), t = wire_begin(&wire, 1);
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model;

    (void)state;
    mw_tensor_head(&wire, "t", INLAY_FLOAT, 1, (int64_t[]){ 0 });
    wire_end(&wire, t);
    wire_ints(&wire, 3, (int64_t[]){ 1 << 20, 1 << 10 }, 2);
    wire_end(&wire, sparse);
    wire_end(&wire, mark);
    assert_int_equal(model_load_bytes(wire.bytes, wire.count, NULL, &model, &diag), INLAY_LIMIT_EXCEEDED);
    assert_non_null(strstr(diag.text, "densified_bytes"));
    wire_deinit(&wire);
}

/* An index that is out of range along its axis is refused, even if the linear index is within the tensor. */
static void sparse_indices_by_axis(void **state)
{
    static const struct {
        int64_t index[2];
        bool good;
    } rows_of[] = {
        { { 2, 3 }, true },  { { 1, -1 }, false }, { { -1, 3 }, false }, { { 0, 4 }, false },
        { { 3, 0 }, false }, { { 2, -4 }, false }, { { 1, 5 }, false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows_of / sizeof rows_of[0]; i++) {
        struct wire wire = { 0 };
        wire_mark mark = mw_begin(&wire, 13, 21), sparse = wire_begin(&wire, MW_SPARSE), t = wire_begin(&wire, 1);
        inlay_diag diag = INLAY_DIAG_INIT;
        graph_model *model = NULL;
        inlay_status status;

        mw_tensor_head(&wire, "c", INLAY_FLOAT, 1, (int64_t[]){ 1 });
        wire_float(&wire, 4, 7);
        wire_end(&wire, t);
        t = wire_begin(&wire, 2);
        mw_tensor_head(&wire, NULL, INLAY_INT64, 2, (int64_t[]){ 1, 2 });
        wire_ints(&wire, 7, rows_of[i].index, 2);
        wire_end(&wire, t);
        wire_ints(&wire, 3, (int64_t[]){ 3, 4 }, 2);
        wire_end(&wire, sparse);
        mw_value(&wire, MW_OUTPUT, "c", INLAY_FLOAT, "3,4");
        wire_end(&wire, mark);
        status = model_load_bytes(wire.bytes, wire.count, NULL, &model, &diag);
        assert_int_equal(status, rows_of[i].good ? INLAY_OK : INLAY_INVALID_MODEL);
        if (!rows_of[i].good)
            assert_non_null(strstr(diag.text, "index 0 of a sparse tensor is outside of its"));
        graph_model_destroy(model);
        wire_deinit(&wire);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sparse_indices_by_axis),
        cmocka_unit_test(every_form_of_every_type),
        cmocka_unit_test(all_types_have_a_row),
        cmocka_unit_test(strings),
        cmocka_unit_test(scalars_and_empty_tensors),
        cmocka_unit_test(raw_data_is_not_copied),
        cmocka_unit_test(wrong_tensors),
        cmocka_unit_test(wrong_payloads),
        cmocka_unit_test(sparse_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
