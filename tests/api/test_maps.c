/* Maps, sequences of maps and sparse tensors as inputs and outputs of inlay.h. */
#include "rig.h"
#include <math.h>

/* A value named `name` of type map(key, value), or a sequence of such. */
static void map_value(struct wire *wire, uint32_t field, const char *name, int key, int value, bool sequence)
{
    wire_mark mark = wire_begin(wire, field), type, seq, elem, map, inner, tensor;

    wire_text(wire, 1, name);
    type = wire_begin(wire, 2);
    if (sequence) {
        seq = wire_begin(wire, 4);
        elem = wire_begin(wire, 1);
    }
    map = wire_begin(wire, 5);
    wire_int(wire, 1, key);
    inner = wire_begin(wire, 2);
    tensor = wire_begin(wire, 1);
    wire_int(wire, 1, value);
    wire_end(wire, tensor);
    wire_end(wire, inner);
    wire_end(wire, map);
    if (sequence) {
        wire_end(wire, elem);
        wire_end(wire, seq);
    }
    wire_end(wire, type);
    wire_end(wire, mark);
}

static void sparse_value(struct wire *wire, uint32_t field, const char *name, int64_t rows, int64_t columns)
{
    const int64_t dims[2] = { rows, columns };
    wire_mark mark = wire_begin(wire, field), type, tensor, shape;

    wire_text(wire, 1, name);
    type = wire_begin(wire, 2);
    tensor = wire_begin(wire, 8);
    wire_int(wire, 1, INLAY_FLOAT);
    shape = wire_begin(wire, 2);
    for (int d = 0; d < 2; d++) {
        wire_mark dim = wire_begin(wire, 1);

        wire_int(wire, 1, dims[d]);
        wire_end(wire, dim);
    }
    wire_end(wire, shape);
    wire_end(wire, tensor);
    wire_end(wire, type);
    wire_end(wire, mark);
}

static wire_mark ml_node(struct wire *wire, const char *op, const char *in, const char *out)
{
    wire_mark mark = mw_node_begin(wire, op, in, out);

    wire_text(wire, 7, "ai.onnx.ml");
    return mark;
}

static void texts_attr(struct wire *wire, const char *name, const char *const *texts, uint32_t count)
{
    wire_mark mark = mw_attr_begin(wire, name, 8);

    for (uint32_t i = 0; i < count; i++)
        wire_text(wire, 9, texts[i]);
    wire_end(wire, mark);
}

static void text_attr(struct wire *wire, const char *name, const char *text)
{
    wire_mark mark = mw_attr_begin(wire, name, 3);

    wire_text(wire, 4, text);
    wire_end(wire, mark);
}

static inlay_value *tensor(inlay_dtype dtype, int64_t count, const void *data, size_t bytes)
{
    inlay_value *value = NULL;

    if (dtype == INLAY_STRING) {
        assert_int_equal(inlay_value_create_strings(1, &count, data, &value, NULL), INLAY_OK);
        return value;
    }
    assert_int_equal(inlay_value_create(dtype, 1, &count, &value, NULL), INLAY_OK);
    memcpy(inlay_value_data(value), data, bytes);
    return value;
}

/* Takes ownership of both references. */
static inlay_value *map_of(inlay_value *keys, inlay_value *values)
{
    inlay_value *map = NULL;

    assert_int_equal(inlay_value_create_list(INLAY_KIND_MAP, inlay_value_dtype(values),
                                             (inlay_value *[]){ keys, values }, 2, &map, NULL),
                     INLAY_OK);
    inlay_value_unref(keys);
    inlay_value_unref(values);
    return map;
}

static void a_map_is_vectorized(void **state)
{
    static const inlay_str keys[] = { { "two", 3 }, { "zero", 4 }, { "unknown", 7 } };
    static const float values[] = { 2, 0.5f, 9 };
    inlay_io_info info = { .struct_size = sizeof info };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), n;
    struct rig rig;

    (void)state;
    map_value(&wire, MW_INPUT, "m", INLAY_STRING, INLAY_FLOAT, false);
    n = ml_node(&wire, "DictVectorizer", "m", "y");
    texts_attr(&wire, "string_vocabulary", (const char *const[]){ "zero", "one", "two" }, 3);
    wire_end(&wire, n);
    mw_value(&wire, MW_OUTPUT, "y", INLAY_FLOAT, NULL);
    wire_end(&wire, mark);
    mw_opset(&wire, 8, "ai.onnx.ml", 1);
    rig = rig_open(&wire, NULL);
    assert_int_equal(inlay_session_input(rig.session, 0, &info), INLAY_OK);
    assert_int_equal(info.kind, INLAY_KIND_MAP);
    assert_int_equal(info.key_dtype, INLAY_STRING);
    assert_int_equal(info.dtype, INLAY_FLOAT);
    for (int i = 0; i < 2; i++) {
        rig_bind(&rig, 0, map_of(tensor(INLAY_STRING, 3, keys, 0), tensor(INLAY_FLOAT, 3, values, sizeof values)));
        rig_run(&rig);
        rig_expect_floats(&rig, 0, "1,3", (const float[]){ 0.5f, 0, 2 });
    }
    rig_close(&rig);
}

/* form: DENSE (values in the order of the keys) or SPARSE (keys are indices). */
static void cast_of(const char *to, const char *form, int64_t most, inlay_dtype from, const void *values, size_t bytes,
                    struct rig *out)
{
    static const int64_t keys[] = { 5, -0, 3 };
    const inlay_dtype dtype = strcmp(to, "TO_FLOAT") == 0   ? INLAY_FLOAT
                              : strcmp(to, "TO_INT64") == 0 ? INLAY_INT64
                                                            : INLAY_STRING;
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), n;

    map_value(&wire, MW_INPUT, "m", INLAY_INT64, from, false);
    n = ml_node(&wire, "CastMap", "m", "y");
    text_attr(&wire, "cast_to", to);
    text_attr(&wire, "map_form", form);
    mw_attr_int(&wire, "max_map", most);
    wire_end(&wire, n);
    mw_value(&wire, MW_OUTPUT, "y", dtype, NULL);
    wire_end(&wire, mark);
    mw_opset(&wire, 8, "ai.onnx.ml", 1);
    *out = rig_open(&wire, NULL);
    rig_bind(out, 0, map_of(tensor(INLAY_INT64, 3, keys, sizeof keys), tensor(from, 3, values, bytes)));
}

static void expect_texts(const struct rig *rig, uint32_t count, const char *const *want)
{
    const inlay_value *value = inlay_context_output(rig->context, 0);
    const inlay_str *got = inlay_value_data(value);

    assert_int_equal(inlay_value_count(value), count);
    assert_int_equal(inlay_value_rank(value), 2);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(got[i].bytes, strlen(want[i]));
        assert_memory_equal(got[i].data, want[i], got[i].bytes);
    }
}

static void maps_are_cast(void **state)
{
    static const float numbers[] = { 1.5f, -2, 7 };
    static const float large[] = { 1e30f, -1e30f, NAN }; /* of the keys 5, 0, 3 */
    static const inlay_str words[] = { { "1.25", 4 }, { "-8", 2 }, { "x", 1 } };
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    (void)state;
    cast_of("TO_FLOAT", "DENSE", 1, INLAY_FLOAT, numbers, sizeof numbers, &rig);
    rig_run(&rig);
    rig_expect_floats(&rig, 0, "1,3", (const float[]){ -2, 7, 1.5f });
    rig_close(&rig);
    cast_of("TO_FLOAT", "SPARSE", 7, INLAY_STRING, words, 0, &rig);
    rig_run(&rig);
    rig_expect_floats(&rig, 0, "1,7", (const float[]){ -8, 0, 0, 0, 0, 1.25f, 0 });
    rig_close(&rig);
    cast_of("TO_INT64", "SPARSE", 6, INLAY_FLOAT, numbers, sizeof numbers, &rig);
    rig_run(&rig);
    assert_int_equal(((const int64_t *)inlay_value_data(inlay_context_output(rig.context, 0)))[5], 1);
    rig_close(&rig);
    cast_of("TO_INT64", "DENSE", 1, INLAY_FLOAT, large, sizeof large, &rig);
    rig_run(&rig);
    assert_memory_equal(inlay_value_data(inlay_context_output(rig.context, 0)),
                        ((const int64_t[]){ INT64_MIN, 0, INT64_MAX }), 3 * sizeof(int64_t));
    rig_close(&rig);
    cast_of("TO_STRING", "SPARSE", 6, INLAY_STRING, words, 0, &rig);
    rig_run(&rig);
    expect_texts(&rig, 6, (const char *const[]){ "-8", "", "", "x", "", "1.25" });
    rig_close(&rig);
    cast_of("TO_STRING", "DENSE", 1, INLAY_FLOAT, numbers, sizeof numbers, &rig);
    rig_run(&rig);
    expect_texts(&rig, 3, (const char *const[]){ "-2.000000", "7.000000", "1.500000" });
    rig_close(&rig);
    cast_of("TO_FLOAT", "SPARSE", 5, INLAY_FLOAT, numbers, sizeof numbers, &rig);
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "key 5"));
    rig_close(&rig);
    cast_of("TO_STRING", "SPARSE", -5, INLAY_STRING, words, 0, &rig);
    assert_int_equal(inlay_context_run(rig.context, NULL, &diag), INLAY_INVALID_MODEL);
    assert_non_null(strstr(diag.text, "max_map is negative"));
    rig_close(&rig);
}

static void rows_become_maps(void **state)
{
    static const float x[] = { 0.25f, 0.75f, 1, 0 };
    inlay_io_info info = { .struct_size = sizeof info };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), n;
    const inlay_value *value;
    inlay_value *kept;
    struct rig rig;

    (void)state;
    mw_value(&wire, MW_INPUT, "x", INLAY_FLOAT, "N,2");
    n = ml_node(&wire, "ZipMap", "x", "z");
    texts_attr(&wire, "classlabels_strings", (const char *const[]){ "no", "yes" }, 2);
    wire_end(&wire, n);
    map_value(&wire, MW_OUTPUT, "z", INLAY_STRING, INLAY_FLOAT, true);
    wire_end(&wire, mark);
    mw_opset(&wire, 8, "ai.onnx.ml", 1);
    rig = rig_open(&wire, NULL);
    assert_int_equal(inlay_session_output(rig.session, 0, &info), INLAY_OK);
    assert_int_equal(info.kind, INLAY_KIND_SEQUENCE);
    assert_int_equal(info.key_dtype, INLAY_STRING);
    rig_floats(&rig, 0, "2,2", x);
    rig_run(&rig);
    kept = inlay_value_ref((inlay_value *)(uintptr_t)inlay_context_output(rig.context, 0));
    rig_run(&rig); /* a referenced result stays valid */
    value = kept;
    assert_int_equal(inlay_value_kind(value), INLAY_KIND_SEQUENCE);
    assert_int_equal(inlay_value_count(value), 2);
    for (uint32_t i = 0; i < 2; i++) {
        const inlay_value *map = inlay_value_item(value, i);
        const inlay_str *keys = inlay_value_data(inlay_value_item(map, 0));

        assert_int_equal(inlay_value_kind(map), INLAY_KIND_MAP);
        assert_memory_equal(keys[1].data, "yes", 3);
        assert_memory_equal(inlay_value_data(inlay_value_item(map, 1)), x + 2 * i, 2 * sizeof *x);
    }
    inlay_value_unref(kept);
    rig_close(&rig);
}

static void invalid_maps(void **state)
{
    static const float values[] = { 1, 2 };
    static const int64_t keys[] = { 1, 2, 3 };
    inlay_value *items[2] = { tensor(INLAY_INT64, 3, keys, sizeof keys),
                              tensor(INLAY_FLOAT, 2, values, sizeof values) };
    inlay_value *turned[2] = { items[1], items[1] }, *map = NULL;
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_int_equal(inlay_value_create_list(INLAY_KIND_MAP, INLAY_FLOAT, items, 2, &map, &diag),
                     INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "a map has two items"));
    assert_int_equal(inlay_value_create_list(INLAY_KIND_MAP, INLAY_FLOAT, turned, 2, &map, &diag),
                     INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_value_create_list(INLAY_KIND_MAP, INLAY_FLOAT, items, 1, &map, &diag),
                     INLAY_INVALID_ARGUMENT);
    assert_null(map);
    inlay_value_unref(items[0]);
    inlay_value_unref(items[1]);
}

static inlay_value *sparse_indices(int64_t count, uint32_t rank, const int64_t *list)
{
    const int64_t dims[2] = { count, (int64_t)rank };
    inlay_value *value = NULL;

    assert_int_equal(inlay_value_create(INLAY_INT64, rank > 0 ? 2 : 1, dims, &value, NULL), INLAY_OK);
    memcpy(inlay_value_data(value), list, (size_t)(count * (rank > 0 ? rank : 1)) * sizeof *list);
    return value;
}

static void sparse_there_and_back(void **state)
{
    static const float x[] = { 3, -1, 2 };
    static const int64_t dims[] = { 2, 3 }, flat[] = { 5, 0, 4 }, by_axis[] = { 1, 2, 0, 0, 1, 1 };
    static const float dense[] = { -1, 0, 0, 0, 2, 3 };
    inlay_io_info info = { .struct_size = sizeof info };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    struct rig rig;

    (void)state;
    sparse_value(&wire, MW_INPUT, "x", 2, 3);
    mw_node(&wire, "Relu", "x", "y");
    sparse_value(&wire, MW_OUTPUT, "y", 2, 3);
    wire_end(&wire, mark);
    rig = rig_open(&wire, NULL);
    assert_int_equal(inlay_session_input(rig.session, 0, &info), INLAY_OK);
    assert_int_equal(info.sparse, 1);
    assert_int_equal(info.kind, INLAY_KIND_TENSOR);
    for (uint32_t rank = 0; rank <= 2; rank += 2) {
        inlay_value *values = tensor(INLAY_FLOAT, 3, x, sizeof x),
                    *at = sparse_indices(3, rank, rank == 0 ? flat : by_axis);
        inlay_value *dense_value = NULL, *out_values, *out_indices;

        assert_int_equal(inlay_value_from_sparse(values, at, 2, dims, &dense_value, NULL), INLAY_OK);
        assert_memory_equal(inlay_value_data(dense_value), dense, sizeof dense);
        rig_bind(&rig, 0, dense_value);
        rig_run(&rig);
        assert_int_equal(inlay_value_to_sparse(inlay_context_output(rig.context, 0), &out_values, &out_indices, NULL),
                         INLAY_OK);
        assert_int_equal(inlay_value_count(out_values), 2);
        assert_memory_equal(inlay_value_data(out_values), ((const float[]){ 2, 3 }), 8);
        assert_int_equal(inlay_value_dims(out_indices)[1], 2);
        assert_memory_equal(inlay_value_data(out_indices), ((const int64_t[]){ 1, 1, 1, 2 }), 32);
        inlay_value_unref(values);
        inlay_value_unref(at);
        inlay_value_unref(out_values);
        inlay_value_unref(out_indices);
    }
    rig_close(&rig);
}

static void invalid_sparse_tensors(void **state)
{
    static const float x[] = { 3, -1 };
    static const int64_t dims[] = { 2, 3 };
    static const struct {
        uint32_t rank;
        int64_t at[4];
    } rows[] = { { 0, { 0, 6 } },       { 0, { -1, 0 } },       { 2, { 0, 3, 0, 0 } },
                 { 2, { 0, 0, 2, 0 } }, { 2, { 0, 0, -1, 0 } }, { 1, { 0, 1 } } };
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        inlay_value *values = tensor(INLAY_FLOAT, 2, x, sizeof x), *at = sparse_indices(2, rows[i].rank, rows[i].at),
                    *dense_value = NULL;

        assert_int_equal(inlay_value_from_sparse(values, at, 2, dims, &dense_value, &diag), INLAY_INVALID_ARGUMENT);
        assert_null(dense_value);
        inlay_value_unref(values);
        inlay_value_unref(at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_is_vectorized),   cmocka_unit_test(maps_are_cast),
        cmocka_unit_test(rows_become_maps),      cmocka_unit_test(invalid_maps),
        cmocka_unit_test(sparse_there_and_back), cmocka_unit_test(invalid_sparse_tensors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
