/* What `inlay inspect --quantization` finds in small files that have each fault, and in one that has none. */
#include "cli/inspect_quant.h"
#include "cmocka_all.h"
#include "model/model.h"
#include "model_writer.h"
#include <math.h>

static void tensor(struct wire *w, const char *name, int dtype, uint32_t rank, const int64_t *dims, const void *data,
                   size_t bytes)
{
    wire_mark t = wire_begin(w, MW_INITIALIZER);

    mw_tensor_head(w, name, dtype, rank, dims);
    wire_bytes(w, 9, data, bytes);
    wire_end(w, t);
}

static char reason[96]; /* of the first pair that nothing uses */

static quant_report look(struct wire *w, wire_mark mark)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *m = NULL;
    quant_report r;

    wire_end(w, mark);
    assert_false(w->failed);
    if (model_load_bytes(w->bytes, w->count, NULL, &m, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_true(quant_look(m, &r));
    for (int k = 0; k < QUANT_KINDS; k++) /* names go with the model */
        r.found[k].first = r.found[k].first != NULL ? "" : NULL;
    (void)snprintf(reason, sizeof reason, "%s", r.unused_count > 0 ? r.unused[0].reason : "");
    assert_int_equal(r.unused_count, r.found[QUANT_UNUSED].count);
    quant_release(&r);
    graph_model_destroy(m);
    wire_deinit(w);
    return r;
}

static void expect(const quant_report *r, int kind, uint64_t count)
{
    for (int k = 0; k < QUANT_KINDS; k++)
        if (r->found[k].count != (k == kind ? count : 0))
            fail_msg("%llu of kind %d", (unsigned long long)r->found[k].count, k);
}

static const int64_t square[] = { 2, 3 };

static wire_mark begin(struct wire *w, float scale)
{
    wire_mark g = mw_begin(w, 8, 17);
    const int8_t weights[] = { 1, 0, 3, 4, 0, 6 };

    mw_value(w, MW_INPUT, "x", INLAY_FLOAT, "N,2");
    mw_value(w, MW_OUTPUT, "y", INLAY_FLOAT, NULL);
    tensor(w, "w", INLAY_INT8, 2, square, weights, sizeof weights);
    tensor(w, "s", INLAY_FLOAT, 0, NULL, &scale, sizeof scale);
    return g;
}

static void dynamic_and_dead(void **state)
{
    struct wire w = { 0 };
    wire_mark g = begin(&w, 0.5f);
    quant_report r;

    (void)state;
    mw_node(&w, "DynamicQuantizeLinear", "x", "q,d,z");
    mw_node(&w, "MatMulInteger", "q,w,z", "y");
    r = look(&w, g);
    assert_int_equal(r.found[QUANT_DYNAMIC].count, 1);
    assert_int_equal(r.found[QUANT_DEAD].count, 1); /* the column in the middle */
    assert_int_equal(r.found[QUANT_UNUSED].count + r.found[QUANT_SCALE].count + r.found[QUANT_HALVES].count, 0);
}

/* A pair, what reads it, and why not on integers; NULL: it does. */
static void pairs_that_nothing_uses(void **state)
{
    static const struct {
        const char *nodes[3][3]; /* operator, inputs, outputs */
        const char *reason;
    } rows[] = {
        { { { "Erf", "d", "y" } }, "it has no kernel that reads integers" },
        { { { "Relu", "d", "y" } }, "what it makes is not quantized again" },
        { { { "Relu", "d", "r" }, { "QuantizeLinear", "r,s", "y" } }, NULL },
        { { { "Relu", "d", "r" }, { "Add", "r,r", "t" }, { "QuantizeLinear", "t,s", "y" } }, NULL },
        { { { "DequantizeLinear", "w,s", "f" }, { "MatMul", "d,f", "y" } }, NULL },
        { { { "MatMul", "d,v", "y" } }, "its weights are floats" },
        { { { "MatMul", "d,x2", "y" } }, "its other operand is computed" },
        { { { "DequantizeLinear", "w16,s", "f" }, { "MatMul", "d,f", "y" } }, "its weights have other than 8 bits" },
        { { { "MaxPool", "d", "y" } }, "what it makes is not quantized again" },
        { { { "MaxPool", "d", "m" }, { "QuantizeLinear", "m,s", "y" } }, NULL },
        { { { "Slice", "d", "m" }, { "QuantizeLinear", "m,s", "y" } }, "it has no kernel that reads integers" },
    };
    const int16_t wide[] = { 1, 2, 3, 4, 5, 6 };
    const float floats[] = { 1, 2, 3, 4, 5, 6 };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wire w = { 0 };
        wire_mark g = begin(&w, 0.5f);
        quant_report r;

        tensor(&w, "w16", INLAY_INT16, 2, square, wide, sizeof wide);
        tensor(&w, "v", INLAY_FLOAT, 2, square, floats, sizeof floats);
        mw_value(&w, MW_INPUT, "x2", INLAY_FLOAT, "2,3");
        mw_node(&w, "QuantizeLinear", "x,s", "q");
        mw_node(&w, "DequantizeLinear", "q,s", "d");
        for (size_t k = 0; k < 3 && rows[i].nodes[k][0] != NULL; k++)
            mw_node(&w, rows[i].nodes[k][0], rows[i].nodes[k][1], rows[i].nodes[k][2]);
        r = look(&w, g);
        assert_int_equal(r.found[QUANT_UNUSED].count, rows[i].reason != NULL);
        assert_string_equal(reason, rows[i].reason != NULL ? rows[i].reason : "");
    }
}

/* Pairs whose own numbers no kernel reads. */
static void pairs_of_their_own(void **state)
{
    const int16_t zero = 0;
    struct wire w = { 0 };
    wire_mark g = begin(&w, 0.5f);
    quant_report r;

    (void)state;
    tensor(&w, "z", INLAY_INT16, 0, NULL, &zero, sizeof zero);
    mw_node(&w, "QuantizeLinear", "x,s,z", "q");
    mw_node(&w, "DequantizeLinear", "q,s,z", "d");
    mw_node(&w, "Relu", "d", "y");
    r = look(&w, g);
    assert_int_equal(r.found[QUANT_UNUSED].count, 1);
    assert_string_equal(reason, "integers of other than 8 bits have no kernels");
    w = (struct wire){ 0 };
    g = begin(&w, 0.5f);
    mw_value(&w, MW_INPUT, "t", INLAY_FLOAT, "");
    mw_node(&w, "QuantizeLinear", "x,t", "q");
    mw_node(&w, "DequantizeLinear", "q,t", "d");
    mw_node(&w, "Relu", "d", "y");
    r = look(&w, g);
    assert_string_equal(reason, "its scale or zero point is no constant");
}

static void scales(void **state)
{
    static const float rows[] = { 0.5f, 0, -1, NAN, INFINITY };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wire w = { 0 };
        wire_mark g = begin(&w, rows[i]);
        quant_report r;

        mw_node(&w, "QuantizeLinear", "x,s", "y");
        r = look(&w, g);
        expect(&r, QUANT_SCALE, i > 0);
    }
}

static void beyond_float16(void **state)
{
    const uint16_t large = 0x7bff; /* 65504 */
    const uint8_t weights[] = { 1, 2, 3, 4, 5, 6 };
    struct wire w = { 0 };
    wire_mark g = begin(&w, 1);
    quant_report r;

    (void)state;
    tensor(&w, "h", INLAY_FLOAT16, 0, NULL, &large, sizeof large);
    tensor(&w, "v", INLAY_UINT8, 2, square, weights, sizeof weights);
    mw_node(&w, "DequantizeLinear", "v,h", "y");
    r = look(&w, g);
    expect(&r, QUANT_OVERFLOW, 1);
}

static void halves(void **state)
{
    static const int64_t many[] = { 1024 };
    float values[1024];

    (void)state;
    for (int exact = 0; exact < 2; exact++) {
        struct wire w = { 0 };
        wire_mark g = begin(&w, 1);
        quant_report r;

        for (int i = 0; i < 1024; i++)
            values[i] = (float)i / 64;
        values[700] = exact ? -INFINITY : 1.0001f;
        tensor(&w, "c", INLAY_FLOAT, 1, many, values, sizeof values);
        mw_node(&w, "Add", "x,c", "y");
        r = look(&w, g);
        expect(&r, QUANT_HALVES, (uint64_t)exact);
        assert_int_equal(r.found[QUANT_HALVES].bytes, exact ? sizeof values : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(dynamic_and_dead),   cmocka_unit_test(pairs_that_nothing_uses),
                                        cmocka_unit_test(pairs_of_their_own), cmocka_unit_test(scales),
                                        cmocka_unit_test(beyond_float16),     cmocka_unit_test(halves) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
