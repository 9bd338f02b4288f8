/* Findings of `inlay inspect --quantization` in small files that have one fault each, and in one without faults. */
#include "cli/inspect_quant.h"
#include "cmocka_all.h"
#include "model/model.h"
#include "model_writer.h"
#include <math.h>

static void tensor(struct wire *wire, const char *name, int dtype, uint32_t rank, const int64_t *dims, const void *data,
                   size_t bytes)
{
    wire_mark mark = wire_begin(wire, MW_INITIALIZER);

    mw_tensor_head(wire, name, dtype, rank, dims);
    wire_bytes(wire, 9, data, bytes);
    wire_end(wire, mark);
}

static char reason[96]; /* of the first unused pair */

static quant_report inspect_quantization(struct wire *wire, wire_mark mark)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model = NULL;
    quant_report report;

    wire_end(wire, mark);
    assert_false(wire->failed);
    if (model_load_bytes(wire->bytes, wire->count, NULL, &model, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_true(quant_inspect(model, &report));
    for (int k = 0; k < QUANT_KINDS; k++) /* the names are freed with the model */
        report.found[k].first = report.found[k].first != NULL ? "" : NULL;
    (void)snprintf(reason, sizeof reason, "%s", report.unused_count > 0 ? report.unused[0].reason : "");
    assert_int_equal(report.unused_count, report.found[QUANT_UNUSED].count);
    quant_release(&report);
    graph_model_destroy(model);
    wire_deinit(wire);
    return report;
}

static void expect(const quant_report *report, int kind, uint64_t count)
{
    for (int k = 0; k < QUANT_KINDS; k++)
        if (report->found[k].count != (k == kind ? count : 0))
            fail_msg("%llu of kind %d", (unsigned long long)report->found[k].count, k);
}

static const int64_t square[] = { 2, 3 };

static wire_mark begin(struct wire *wire, float scale)
{
    wire_mark mark = mw_begin(wire, 8, 17);
    const int8_t weights[] = { 1, 0, 3, 4, 0, 6 };

    mw_value(wire, MW_INPUT, "x", INLAY_FLOAT, "N,2");
    mw_value(wire, MW_OUTPUT, "y", INLAY_FLOAT, NULL);
    tensor(wire, "w", INLAY_INT8, 2, square, weights, sizeof weights);
    tensor(wire, "s", INLAY_FLOAT, 0, NULL, &scale, sizeof scale);
    return mark;
}

static void dynamic_and_dead(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = begin(&wire, 0.5f);
    quant_report report;

    (void)state;
    mw_node(&wire, "DynamicQuantizeLinear", "x", "q,d,z");
    mw_node(&wire, "MatMulInteger", "q,w,z", "y");
    report = inspect_quantization(&wire, mark);
    assert_int_equal(report.found[QUANT_DYNAMIC].count, 1);
    assert_int_equal(report.found[QUANT_DEAD].count, 1); /* the column in the middle */
    assert_int_equal(
        report.found[QUANT_UNUSED].count + report.found[QUANT_SCALE].count + report.found[QUANT_HALVES].count, 0);
}

/* A pair of QuantizeLinear and DequantizeLinear with its consumer, and the reason why the consumer does not run on
 * integers; NULL: it does. */
static void unused_pairs(void **state)
{
    static const struct {
        const char *nodes[3][3]; /* operator, inputs, outputs */
        const char *reason;
    } rows[] = {
        { { { "Erf", "d", "y" } }, "it has no kernel that reads integers" },
        { { { "Relu", "d", "y" } }, "its result is not quantized again" },
        { { { "Relu", "d", "r" }, { "QuantizeLinear", "r,s", "y" } }, NULL },
        { { { "Relu", "d", "r" }, { "Add", "r,r", "t" }, { "QuantizeLinear", "t,s", "y" } }, NULL },
        { { { "DequantizeLinear", "w,s", "f" }, { "MatMul", "d,f", "y" } }, NULL },
        { { { "MatMul", "d,v", "y" } }, "its weights are floats" },
        { { { "MatMul", "d,x2", "y" } }, "its other operand is computed" },
        { { { "DequantizeLinear", "w16,s", "f" }, { "MatMul", "d,f", "y" } }, "its weights do not have 8 bits" },
        { { { "MaxPool", "d", "y" } }, "its result is not quantized again" },
        { { { "MaxPool", "d", "m" }, { "QuantizeLinear", "m,s", "y" } }, NULL },
        { { { "Slice", "d", "m" }, { "QuantizeLinear", "m,s", "y" } }, "it has no kernel that reads integers" },
    };
    const int16_t wide[] = { 1, 2, 3, 4, 5, 6 };
    const float floats[] = { 1, 2, 3, 4, 5, 6 };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wire wire = { 0 };
        wire_mark mark = begin(&wire, 0.5f);
        quant_report report;

        tensor(&wire, "w16", INLAY_INT16, 2, square, wide, sizeof wide);
        tensor(&wire, "v", INLAY_FLOAT, 2, square, floats, sizeof floats);
        mw_value(&wire, MW_INPUT, "x2", INLAY_FLOAT, "2,3");
        mw_node(&wire, "QuantizeLinear", "x,s", "q");
        mw_node(&wire, "DequantizeLinear", "q,s", "d");
        for (size_t k = 0; k < 3 && rows[i].nodes[k][0] != NULL; k++)
            mw_node(&wire, rows[i].nodes[k][0], rows[i].nodes[k][1], rows[i].nodes[k][2]);
        report = inspect_quantization(&wire, mark);
        assert_int_equal(report.found[QUANT_UNUSED].count, rows[i].reason != NULL);
        assert_string_equal(reason, rows[i].reason != NULL ? rows[i].reason : "");
    }
}

/* Pairs whose integers no kernel reads. */
static void pairs_without_integer_kernels(void **state)
{
    const int16_t zero = 0;
    struct wire wire = { 0 };
    wire_mark mark = begin(&wire, 0.5f);
    quant_report report;

    (void)state;
    tensor(&wire, "z", INLAY_INT16, 0, NULL, &zero, sizeof zero);
    mw_node(&wire, "QuantizeLinear", "x,s,z", "q");
    mw_node(&wire, "DequantizeLinear", "q,s,z", "d");
    mw_node(&wire, "Relu", "d", "y");
    report = inspect_quantization(&wire, mark);
    assert_int_equal(report.found[QUANT_UNUSED].count, 1);
    assert_string_equal(reason, "kernels support only 8-bit integers");
    wire = (struct wire){ 0 };
    mark = begin(&wire, 0.5f);
    mw_value(&wire, MW_INPUT, "t", INLAY_FLOAT, "");
    mw_node(&wire, "QuantizeLinear", "x,t", "q");
    mw_node(&wire, "DequantizeLinear", "q,t", "d");
    mw_node(&wire, "Relu", "d", "y");
    report = inspect_quantization(&wire, mark);
    assert_string_equal(reason, "its scale or zero point is not constant");
}

static void scales(void **state)
{
    static const float rows[] = { 0.5f, 0, -1, NAN, INFINITY };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wire wire = { 0 };
        wire_mark mark = begin(&wire, rows[i]);
        quant_report report;

        mw_node(&wire, "QuantizeLinear", "x,s", "y");
        report = inspect_quantization(&wire, mark);
        expect(&report, QUANT_SCALE, i > 0);
    }
}

static void beyond_float16(void **state)
{
    const uint16_t large = 0x7bff; /* 65504 */
    const uint8_t weights[] = { 1, 2, 3, 4, 5, 6 };
    struct wire wire = { 0 };
    wire_mark mark = begin(&wire, 1);
    quant_report report;

    (void)state;
    tensor(&wire, "h", INLAY_FLOAT16, 0, NULL, &large, sizeof large);
    tensor(&wire, "v", INLAY_UINT8, 2, square, weights, sizeof weights);
    mw_node(&wire, "DequantizeLinear", "v,h", "y");
    report = inspect_quantization(&wire, mark);
    expect(&report, QUANT_OVERFLOW, 1);
}

static void float16_values(void **state)
{
    static const int64_t many[] = { 1024 };
    float values[1024];

    (void)state;
    for (int exact = 0; exact < 2; exact++) {
        struct wire wire = { 0 };
        wire_mark mark = begin(&wire, 1);
        quant_report report;

        for (int i = 0; i < 1024; i++)
            values[i] = (float)i / 64;
        values[700] = exact ? -INFINITY : 1.0001f;
        tensor(&wire, "c", INLAY_FLOAT, 1, many, values, sizeof values);
        mw_node(&wire, "Add", "x,c", "y");
        report = inspect_quantization(&wire, mark);
        expect(&report, QUANT_HALVES, (uint64_t)exact);
        assert_int_equal(report.found[QUANT_HALVES].bytes, exact ? sizeof values : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(dynamic_and_dead),
                                        cmocka_unit_test(unused_pairs),
                                        cmocka_unit_test(pairs_without_integer_kernels),
                                        cmocka_unit_test(scales),
                                        cmocka_unit_test(beyond_float16),
                                        cmocka_unit_test(float16_values) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
