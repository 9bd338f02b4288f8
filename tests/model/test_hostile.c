/* Hostile and damaged files: each is refused with a message of one line that names the location. */
#include "cmocka_all.h"
#include "model/model.h"
#include "model_script.h"
#include <stdlib.h>

static void nested(struct wire *wire, int depth)
{
    wire_mark node;
    mw_body body;

    mw_value(wire, MW_OUTPUT, "y", 1, NULL);
    if (depth == 0) {
        mw_node(wire, "Relu", "x", "y");
        return;
    }
    node = mw_node_begin(wire, "If", "c", "y");
    body = mw_body_begin(wire, "then_branch", "b");
    nested(wire, depth - 1);
    mw_body_end(wire, body);
    wire_end(wire, node);
}

static void subgraphs_3000(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", 1, NULL);
    mw_value(wire, MW_INPUT, "c", 9, NULL);
    nested(wire, 3000);
    wire_end(wire, mark);
}

static void subgraphs_33(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", 1, NULL);
    mw_value(wire, MW_INPUT, "c", 9, NULL);
    nested(wire, 32);
    wire_end(wire, mark);
}

/* seq(seq(...)): 400 nested sequence types. */
static void types_400(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17), v = wire_begin(wire, MW_INPUT), marks[1000];
    int open = 0;

    wire_text(wire, 1, "x");
    marks[open++] = wire_begin(wire, 2);
    for (int i = 0; i < 400; i++) {
        marks[open++] = wire_begin(wire, 4);
        marks[open++] = wire_begin(wire, 1);
    }
    while (open > 0)
        wire_end(wire, marks[--open]);
    wire_end(wire, v);
    wire_end(wire, mark);
}

static void types_3(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17), v = wire_begin(wire, MW_INPUT), marks[8];
    int open = 0;

    wire_text(wire, 1, "x");
    marks[open++] = wire_begin(wire, 2);
    for (int i = 0; i < 3; i++) {
        marks[open++] = wire_begin(wire, 4);
        marks[open++] = wire_begin(wire, 1);
    }
    marks[open++] = wire_begin(wire, 1);
    mw_tensor_type(wire, 1, NULL);
    while (open > 0)
        wire_end(wire, marks[--open]);
    wire_end(wire, v);
    wire_end(wire, mark);
}

static void cycle(struct wire *wire)
{
    script_model(wire, 17,
                 "x : float\n"
                 "a = Add(x,c)\n"
                 "b = Relu(a)\n"
                 "c = Relu(b)\n"
                 "-> c");
}

static void self_cycle(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_node(wire, "Relu", "a", "a");
    wire_end(wire, mark);
}

static void two_producers(struct wire *wire)
{
    script_model(wire, 17,
                 "x : float\n"
                 "y = Relu(x)\n"
                 "y = Abs(x)");
}

static void two_inputs(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", 1, NULL);
    mw_value(wire, MW_INPUT, "x", 1, NULL);
    wire_end(wire, mark);
}

static void two_initializers(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_ones(wire, "w", 2);
    mw_ones(wire, "w", 2);
    wire_end(wire, mark);
}

static void output_is_input(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", 1, NULL);
    mw_node(wire, "Relu", "x", "x");
    wire_end(wire, mark);
}

static void missing_input(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", 1, NULL);
    mw_node(wire, "Add", "x,nowhere", "y");
    wire_end(wire, mark);
}

static void missing_input_of_body(struct wire *wire)
{
    script_model(wire, 17,
                 "c : bool\n"
                 "y = If(c) then_branch {\n"
                 "    z = Relu(nowhere)\n"
                 "    -> z\n"
                 "}");
}

static void missing_output(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_value(wire, MW_OUTPUT, "y", 1, NULL);
    wire_end(wire, mark);
}

static void cycle_through_body(struct wire *wire)
{
    script_model(wire, 17,
                 "c : bool\n"
                 "y = If(c) then_branch {\n"
                 "    o = Relu(z)\n"
                 "    -> o\n"
                 "}\n"
                 "z = Relu(y)");
}

static void no_graph(struct wire *wire)
{
    wire_int(wire, 1, 8);
}

static void ir_2(struct wire *wire)
{
    wire_end(wire, mw_begin(wire, 2, 1));
}

static void ir_15(struct wire *wire)
{
    wire_end(wire, mw_begin(wire, 15, 30));
}

static void two_opsets(struct wire *wire)
{
    mw_opset(wire, 8, "ai.onnx", 13);
    wire_end(wire, mw_begin(wire, 8, 17));
}

static void two_graphs(struct wire *wire)
{
    wire_end(wire, mw_begin(wire, 8, 17));
    wire_end(wire, wire_begin(wire, 7));
}

static void nul_in_name(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17), node = wire_begin(wire, MW_NODE);

    wire_bytes(wire, 3, "a\0b", 3);
    wire_end(wire, node);
    wire_end(wire, mark);
}

static void lying_length(struct wire *wire)
{
    wire_end(wire, mw_begin(wire, 8, 17));
    wire_raw(wire, "\x3a\xff\xff\xff\xff\x07", 6); /* graph of 2 GiB */
}

static void length_past_message(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    wire_raw(wire, "\x0a\x05\x0a\x64", 4); /* a node of five bytes ... */
    wire_raw(wire, "abc", 3);              /* ... with an input of a hundred */
    wire_end(wire, mark);
}

static void huge_varint(struct wire *wire)
{
    wire_raw(wire, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12);
}

static void field_zero(struct wire *wire)
{
    wire_raw(wire, "\x00\x01", 2);
}

static void wire_type_3(struct wire *wire)
{
    wire_raw(wire, "\x0b\x0c", 2);
}

static void wrong_wire_type(struct wire *wire)
{
    wire_text(wire, 1, "eight");
}

static void half_a_float(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17), node = mw_node_begin(wire, "A", "", "y"), attr = wire_begin(wire, 5);

    wire_bytes(wire, 7, "abcdef", 6);
    wire_end(wire, attr);
    wire_end(wire, node);
    wire_end(wire, mark);
}

static void rank_17(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", 1, "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1");
    wire_end(wire, mark);
}

static void input_type_99(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_value(wire, MW_INPUT, "x", 99, "1");
    wire_end(wire, mark);
}

static void attribute_twice(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17), node = mw_node_begin(wire, "A", "", "y");

    for (int i = 0; i < 2; i++)
        mw_attr_int(wire, "axis", 1);
    wire_end(wire, node);
    wire_end(wire, mark);
}

static void attribute_without_tensor(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17), node = mw_node_begin(wire, "Constant", "", "y"), attr = wire_begin(wire, 5);

    wire_text(wire, 1, "value");
    wire_int(wire, 20, 4);
    wire_end(wire, attr);
    wire_end(wire, node);
    wire_end(wire, mark);
}

static void newline_in_name(struct wire *wire)
{
    wire_mark mark = mw_begin(wire, 8, 17);

    mw_node(wire, "Relu", "no\nwhere\x1b", "y");
    wire_end(wire, mark);
}

static void lfs_pointer(struct wire *wire)
{
    wire_raw(wire, "version https://git-lfs.github.com/spec/v1\n", 43);
}

static void nothing(struct wire *wire)
{
    wire_raw(wire, "", 0);
}

static const struct {
    const char *what;
    void (*write)(struct wire *);
    inlay_status status;
    const char *text;
} rows[] = {
    { "3000 subgraphs", subgraphs_3000, INLAY_LIMIT_EXCEEDED, "exceeds model_limits subgraphs (32)" },
    { "33 subgraphs", subgraphs_33, INLAY_LIMIT_EXCEEDED, "exceeds model_limits subgraphs (32)" },
    { "deep types", types_400, INLAY_LIMIT_EXCEEDED, "exceeds model_limits depth (100)" },
    { "seq of seq of seq", types_3, INLAY_UNSUPPORTED, "value 'x' has a type of more than two levels" },
    { "cycle", cycle, INLAY_INVALID_MODEL, "graph 'g': nodes form a cycle of 3: " },
    { "self", self_cycle, INLAY_INVALID_MODEL, "nodes form a cycle of 1: 'Relu#0' -> " },
    { "cycle through body", cycle_through_body, INLAY_INVALID_MODEL, "nodes form a cycle of 2" },
    { "two producers", two_producers, INLAY_INVALID_MODEL, "(Abs): output 0 'y' has the name of another value" },
    { "two inputs", two_inputs, INLAY_INVALID_MODEL, "graph 'g': input 'x' has the name of another value" },
    { "two initializers", two_initializers, INLAY_INVALID_MODEL, "initializer 'w' is defined twice" },
    { "output is input", output_is_input, INLAY_INVALID_MODEL, "output 0 'x' has the name of another value" },
    { "missing input", missing_input, INLAY_INVALID_MODEL, "(Add): input 1 'nowhere' has no producer; add" },
    { "missing in body", missing_input_of_body, INLAY_INVALID_MODEL,
      "graph 'then_branch', the node that produces 'z' (Relu): input 0" },
    { "missing output", missing_output, INLAY_INVALID_MODEL, "output 0 'y' has no producer" },
    { "no graph", no_graph, INLAY_INVALID_MODEL, "has no graph" },
    { "IR 2", ir_2, INLAY_UNSUPPORTED, "has ir_version 2; inlay reads IR 3 to 14" },
    { "IR 15", ir_15, INLAY_UNSUPPORTED, "has ir_version 15; inlay reads IR 3 to 14" },
    { "two opsets", two_opsets, INLAY_INVALID_MODEL, "domain 'ai.onnx' is imported as opset 13 and as opset 17" },
    { "two graphs", two_graphs, INLAY_INVALID_MODEL, "ModelProto.graph: occurs twice" },
    { "NUL", nul_in_name, INLAY_INVALID_MODEL, "NodeProto.name: contains a NUL byte" },
    { "lying length", lying_length, INLAY_INVALID_MODEL,
      "ModelProto.graph: has length 2147483647, but the message has only 0 bytes left" },
    { "length past message", length_past_message, INLAY_INVALID_MODEL,
      "NodeProto.input: has length 100, but the message has only 3 bytes left" },
    { "huge varint", huge_varint, INLAY_INVALID_MODEL, "ModelProto.ir_version: a number extends beyond" },
    { "field 0", field_zero, INLAY_INVALID_MODEL, "byte 0, ModelProto: not a field" },
    { "group", wire_type_3, INLAY_INVALID_MODEL, "a wire type that ONNX does not use" },
    { "wrong wire type", wrong_wire_type, INLAY_INVALID_MODEL, "ModelProto.ir_version: has the wrong wire type" },
    { "half a float", half_a_float, INLAY_INVALID_MODEL, "AttributeProto.floats: the packed list ends in the middle" },
    { "rank 17", rank_17, INLAY_INVALID_MODEL, "value 'x' has rank 17; inlay computes with up to 16" },
    { "type 99", input_type_99, INLAY_UNSUPPORTED, "value 'x' has element type 99" },
    { "attribute twice", attribute_twice, INLAY_INVALID_MODEL, "attribute 'axis' is set twice" },
    { "no tensor", attribute_without_tensor, INLAY_INVALID_MODEL, "(Constant): attribute 'value': has type tensor" },
    { "newline", newline_in_name, INLAY_INVALID_MODEL, "input 0 'no?where?' has no producer" },
    { "LFS pointer", lfs_pointer, INLAY_INVALID_MODEL, "is a Git LFS pointer" },
    { "nothing", nothing, INLAY_INVALID_MODEL, "is empty" },
};

static void broken_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const model_load_options strict = { .strict = true };
        struct wire wire = { 0 };
        inlay_diag diag = INLAY_DIAG_INIT;
        graph_model *model;

        rows[i].write(&wire);
        assert_false(wire.failed);
        if (model_load_bytes(wire.bytes, wire.count, &strict, &model, &diag) != rows[i].status || model != NULL)
            fail_msg("%s: status %d, %s", rows[i].what, diag.code, diag.text);
        if (strstr(diag.text, rows[i].text) == NULL || strchr(diag.text, '\n') != NULL)
            fail_msg("%s: %s", rows[i].what, diag.text);
        wire_deinit(&wire);
    }
}

/* Every truncated file is refused. */
static void truncated_everywhere(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);

    (void)state;
    script_add(&wire, "x : N,3\n"
                      "c : bool -\n"
                      "w = [3] 1,1,1");
    nested(&wire, 2);
    wire_end(&wire, mark);
    for (size_t n = 0; n <= wire.count; n++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        graph_model *model;
        uint8_t *copy = malloc(n == 0 ? 1 : n);

        assert_non_null(copy);
        memcpy(copy, wire.bytes, n);
        if (model_load_bytes(copy, n, NULL, &model, &diag) == INLAY_OK)
            assert_int_equal(n, wire.count);
        else
            assert_true(diag.text[0] != '\0');
        graph_model_destroy(model);
        free(copy);
    }
    wire_deinit(&wire);
}

static void limits_are_options(void **state)
{
    static const struct {
        model_load_options options;
        const char *text;
    } cases[] = {
        { { .limits = { .nodes = 2 } }, "model_limits nodes (2)" },
        { { .limits = { .values = 3 } }, "model_limits values" },
        { { .limits = { .depth = 5 } }, "model_limits depth (5)" },
        { { .limits = { .subgraphs = 1 } }, "model_limits subgraphs (1)" },
        { { .limits = { .tensor_bytes = 8 } }, "model_limits tensor_bytes (8)" },
        { { .limits = { .parsed_bytes = 100 } }, "model_limits parsed_bytes (100)" },
    };
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17);
    graph_model *model;
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    script_add(&wire, "x : N,3\n"
                      "c : bool -\n"
                      "w = [3] 1,1,1");
    nested(&wire, 3);
    wire_end(&wire, mark);
    assert_int_equal(model_load_bytes(wire.bytes, wire.count, NULL, &model, &diag), INLAY_OK);
    graph_model_destroy(model);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(model_load_bytes(wire.bytes, wire.count, &cases[i].options, &model, &diag),
                         INLAY_LIMIT_EXCEEDED);
        if (strstr(diag.text, cases[i].text) == NULL)
            fail_msg("%s", diag.text);
    }
    wire_deinit(&wire);
}

static void no_such_file(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    graph_model *model;

    (void)state;
    assert_int_equal(model_load_path("/nowhere/model.onnx", NULL, &model, &diag), INLAY_NOT_FOUND);
    assert_non_null(strstr(diag.text, "/nowhere/model.onnx: cannot be opened"));
    assert_int_equal(model_load_path("/tmp", NULL, &model, &diag), INLAY_IO_ERROR);
    assert_non_null(strstr(diag.text, "/tmp: is a directory"));
    assert_int_equal(model_load_path("/nowhere/model.onnx", NULL, &model, NULL), INLAY_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_files),
        cmocka_unit_test(truncated_everywhere),
        cmocka_unit_test(limits_are_options),
        cmocka_unit_test(no_such_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
