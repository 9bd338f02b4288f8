/* bodies.c - binding and shape inference of whole graphs: bodies, captures, operators of plug-ins. */
#include "graph/graph.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const graph_opset opset_17 = { "ai.onnx", 17 };

static graph_model *new_model(void)
{
    graph_model *model = graph_model_create();

    assert_non_null(model);
    model->opsets = arena_copy(&model->arena, &opset_17, sizeof opset_17);
    model->opset_count = 1;
    return model;
}

/* Adds a value of this rank, at most 2; rank -1: unknown. The sizes a and b: a number, a symbol, or "?" (unknown). */
static uint32_t value(struct graph *graph, const char *name, inlay_dtype dtype, int rank, const char *a, const char *b)
{
    const char *const sizes[] = { a, b };
    uint32_t value_index = graph_add_value(graph, name, strlen(name));
    inlay_dim *dims = arena_array(&graph->model->arena, 4, sizeof *dims);

    graph->values[value_index].info.dtype = dtype;
    for (int d = 0; d < rank; d++) {
        if (sizes[d][0] >= '0' && sizes[d][0] <= '9')
            dims[d] = dim_fixed(atoll(sizes[d]));
        else if (sizes[d][0] == '?')
            dims[d] = dim_unknown();
        else
            dims[d] = (inlay_dim){ -1, INLAY_DIM_SYMBOLIC, graph_symbol(graph->model, sizes[d]) };
    }
    if (rank >= 0) {
        graph->values[value_index].info.rank = (uint32_t)rank;
        graph->values[value_index].info.dims = dims;
    }
    return value_index;
}

/* Adds a value without a type. */
static uint32_t untyped_value(struct graph *graph, const char *name)
{
    return value(graph, name, INLAY_UNDEFINED, -1, "", "");
}

static uint32_t constant(struct graph *graph, const char *name, int64_t number)
{
    uint32_t v = graph_add_value(graph, name, strlen(name));
    int64_t *data = arena_copy(&graph->model->arena, &number, sizeof number);

    assert_int_equal(graph_set_constant(graph, v, INLAY_INT64, 0, NULL, data, sizeof number), INLAY_OK);
    return v;
}

/* Adds a node of ai.onnx; the lists end with INLAY_NONE. */
static graph_node *node(struct graph *graph, const char *op_type, const uint32_t *in, const uint32_t *out)
{
    uint32_t ins = 0, outs = 0;
    graph_node *n;

    while (in[ins] != INLAY_NONE)
        ins++;
    while (out[outs] != INLAY_NONE)
        outs++;
    n = graph_add_node(graph, op_type, "", "", ins, outs);
    assert_non_null(n);
    memcpy((uint32_t *)(uintptr_t)n->info.inputs, in, ins * sizeof *in);
    memcpy((uint32_t *)(uintptr_t)n->info.outputs, out, outs * sizeof *out);
    return n;
}
#define LIST(...)                                                                                                      \
    (uint32_t[])                                                                                                       \
    {                                                                                                                  \
        __VA_ARGS__, INLAY_NONE                                                                                        \
    }
#define NOTHING                                                                                                        \
    (uint32_t[])                                                                                                       \
    {                                                                                                                  \
        INLAY_NONE                                                                                                     \
    }

static void formals(struct graph *graph, const uint32_t *in, const uint32_t *out)
{
    for (graph->input_count = 0; in[graph->input_count] != INLAY_NONE; graph->input_count++)
        ;
    for (graph->output_count = 0; out[graph->output_count] != INLAY_NONE; graph->output_count++)
        ;
    graph->inputs = arena_copy(&graph->model->arena, in, graph->input_count * sizeof *in);
    graph->outputs = arena_copy(&graph->model->arena, out, graph->output_count * sizeof *out);
}

/* Adds a body to a node; value outer[i] of the node's graph is captured as inner[i] of the body. */
static void attach(graph_node *node, const char *attr, struct graph *body, const uint32_t *outer, const uint32_t *inner)
{
    graph_body *bodies = arena_array(&body->model->arena, node->body_count + 1, sizeof *bodies);
    graph_body *b = &bodies[node->body_count];
    uint32_t count = 0;

    if (node->body_count > 0)
        memcpy(bodies, node->bodies, node->body_count * sizeof *bodies);
    while (outer[count] != INLAY_NONE)
        count++;
    b->attr = attr;
    b->graph = body;
    b->capture_count = count;
    b->capture_outer = arena_copy(&body->model->arena, outer, count * sizeof *outer);
    b->capture_inner = arena_copy(&body->model->arena, inner, count * sizeof *inner);
    body->captured = b->capture_inner;
    body->captured_count = count;
    node->captures = b->capture_outer;
    node->capture_count = count;
    node->bodies = bodies;
    node->body_count++;
}

/* Binds the model and infers its shapes. message: a part of the expected error message; NULL: success. */
static void check(graph_model *model, const char *message)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = graph_finish(model->main, &diag);

    if (status == INLAY_OK)
        status = graph_bind(model, NULL, &diag);
    if (status == INLAY_OK)
        status = graph_infer(model, &diag);
    if (message == NULL ? status != INLAY_OK : status == INLAY_OK || strstr(diag.text, message) == NULL)
        fail_msg("%d %s", (int)status, diag.text);
}

/* wanted: type and sizes of the value, separated by spaces. */
static void expect(const struct graph *graph, uint32_t value, const char *wanted)
{
    const inlay_value_info *info = &graph->values[value].info;
    char got[256];

    snprintf(got, sizeof got, "%s%s", info->kind == INLAY_VALUE_SEQUENCE ? "seq " : "", inlay_dtype_name(info->dtype));
    for (uint32_t d = 0; info->rank != INLAY_RANK_UNKNOWN && d < info->rank; d++) {
        const inlay_dim dim = info->dims[d];

        if (dim.kind == INLAY_DIM_FIXED)
            snprintf(got + strlen(got), sizeof got - strlen(got), " %lld", (long long)dim.value);
        else
            snprintf(got + strlen(got), sizeof got - strlen(got), " %s",
                     dim.kind == INLAY_DIM_SYMBOLIC ? graph->model->symbols[dim.symbol].name.data : "?");
    }
    if (info->rank == INLAY_RANK_UNKNOWN)
        strcat(got, " unknown");
    assert_string_equal(got, wanted);
}

/* Adds a branch that captures `outer` and applies an operator to it. */
static void branch(struct graph *graph, graph_node *n, const char *attr, uint32_t outer, const char *op_type)
{
    struct graph *body = graph_create(graph->model, graph, attr);
    uint32_t x = untyped_value(body, "captured"), y = untyped_value(body, "result");

    node(body, op_type, LIST(x), LIST(y));
    formals(body, NOTHING, LIST(y));
    attach(n, attr, body, LIST(outer), LIST(x));
}

static void test_if(void **state)
{
    static const struct {
        const char *then_op, *else_op, *gives, *fails;
    } rows[] = {
        { "Relu", "Identity", "float N 4", NULL },
        { "Relu", "Transpose", "float ? ?", NULL },
        { "Relu", "Size", NULL, "float in one branch and int64 in the other" },
        { "Relu", "Flatten", "float N 4", NULL },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        graph_model *model = new_model();
        struct graph *graph = model->main;
        uint32_t c = value(graph, "c", INLAY_BOOL, 0, "", ""), x = value(graph, "x", INLAY_FLOAT, 2, "N", "4"),
                 y = untyped_value(graph, "y");
        graph_node *n = node(graph, "If", LIST(c), LIST(y));

        branch(graph, n, "then_branch", x, rows[i].then_op);
        branch(graph, n, "else_branch", x, rows[i].else_op);
        n->captures = n->bodies[0].capture_outer;
        n->capture_count = 1;
        formals(graph, LIST(c, x), LIST(y));
        check(model, rows[i].fails);
        if (rows[i].gives != NULL)
            expect(graph, y, rows[i].gives);
        graph_model_destroy(model);
    }
}

/* for _ in range(m): (a, b) = (a ++ b, b); also emits b */
static struct graph *loop_body(struct graph *graph)
{
    struct graph *body = graph_create(graph->model, graph, "body");
    uint32_t i = untyped_value(body, "i"), go = untyped_value(body, "go"), a = untyped_value(body, "a"),
             b = untyped_value(body, "b");
    uint32_t go_on = untyped_value(body, "go_on"), longer = untyped_value(body, "longer"),
             same = untyped_value(body, "same"), row = untyped_value(body, "row");

    node(body, "Identity", LIST(go), LIST(go_on));
    assert_int_equal(graph_set_attr_int(body, node(body, "Concat", LIST(a, b), LIST(longer)), "axis", 0), INLAY_OK);
    node(body, "Identity", LIST(b), LIST(same));
    node(body, "Relu", LIST(b), LIST(row));
    formals(body, LIST(i, go, a, b), LIST(go_on, longer, same, row));
    return body;
}

static void test_loop(void **state)
{
    graph_model *model = new_model();
    struct graph *graph = model->main;
    uint32_t m = constant(graph, "m", 3), c = value(graph, "c", INLAY_BOOL, 0, "", "");
    uint32_t a = value(graph, "a", INLAY_FLOAT, 2, "2", "N"), b = value(graph, "b", INLAY_FLOAT, 2, "1", "N");
    uint32_t out[] = { untyped_value(graph, "grown"), untyped_value(graph, "kept"), untyped_value(graph, "rows"),
                       INLAY_NONE };
    graph_node *n = node(graph, "Loop", LIST(m, c, a, b), out);

    (void)state;
    attach(n, "body", loop_body(graph), NOTHING, NOTHING);
    formals(graph, LIST(c, a, b), out);
    check(model, NULL);
    expect(graph, out[0], "float ? N");
    expect(graph, out[1], "float 1 N");
    expect(graph, out[2], "float ? 1 N");
    graph_model_destroy(model);
}

/* Nested loops, each with a carried value that grows: the numbers of inference rounds must not multiply. */
static void test_nested_loops(void **state)
{
    graph_model *model = new_model();
    struct graph *graph = model->main;
    uint32_t m = constant(graph, "m", 3), c = value(graph, "c", INLAY_BOOL, 0, "", "");
    uint32_t a = value(graph, "a", INLAY_FLOAT, 1, "N", ""), y = untyped_value(graph, "y");
    graph_node *n = node(graph, "Loop", LIST(m, c, a), LIST(y));

    (void)state;
    formals(graph, LIST(c, a), LIST(y));
    for (int depth = 0; depth < 24; depth++) {
        struct graph *body = graph_create(model, graph, "body");
        uint32_t i = untyped_value(body, "i"), go = untyped_value(body, "go"), x = untyped_value(body, "x"),
                 z = untyped_value(body, "z"), w = untyped_value(body, "w");
        uint32_t three = constant(body, "three", 3);

        assert_int_equal(graph_set_attr_int(body, node(body, "Concat", LIST(x, x), LIST(z)), "axis", 0), INLAY_OK);
        formals(body, LIST(i, go, x), LIST(go, w));
        attach(n, "body", body, NOTHING, NOTHING);
        graph = body;
        n = depth == 23 ? node(body, "Relu", LIST(z), LIST(w)) : node(body, "Loop", LIST(three, go, z), LIST(w));
    }
    check(model, NULL);
    expect(model->main, y, "float unknown");
    graph_model_destroy(model);
}

static void test_loop_counts(void **state)
{
    graph_model *model = new_model();
    struct graph *graph = model->main;
    uint32_t m = constant(graph, "m", 3), c = value(graph, "c", INLAY_BOOL, 0, "", "");
    uint32_t a = value(graph, "a", INLAY_FLOAT, 2, "2", "N"), y = untyped_value(graph, "y");
    graph_node *n = node(graph, "Loop", LIST(m, c, a), LIST(y));

    (void)state;
    attach(n, "body", loop_body(graph), NOTHING, NOTHING);
    formals(graph, LIST(c, a), LIST(y));
    check(model, "its body must have 3 inputs and 2 outputs, but has 4 and 4");
    graph_model_destroy(model);
}

/* Running sum along an axis: the state [N], the scanned input [T, N] or [N, T]. */
static void test_scan(void **state)
{
    static const struct {
        int64_t opset, axis;
        const char *sums, *steps;
    } rows[] = {
        { 11, 0, "float N", "float T N" },
        { 11, 1, "float N", "float T N" },
        { 8, 0, "float B N", "float B T N" },
    };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        graph_model *model = new_model();
        struct graph *graph = model->main, *body;
        bool batched = rows[row].opset == 8;
        uint32_t s, input, sum = untyped_value(graph, "sum"), steps = untyped_value(graph, "steps"), a, b, next, out;
        graph_node *n;

        model->opsets[0].version = rows[row].opset;
        if (batched) {
            s = value(graph, "s", INLAY_FLOAT, 2, "B", "N");
            input = value(graph, "x", INLAY_FLOAT, 2, "B", "T");
            graph->values[input].info.rank = 3;
            ((inlay_dim *)(uintptr_t)graph->values[input].info.dims)[2] = graph->values[s].info.dims[1];
        } else {
            s = value(graph, "s", INLAY_FLOAT, 1, "N", "");
            input = rows[row].axis == 0 ? value(graph, "x", INLAY_FLOAT, 2, "T", "N")
                                        : value(graph, "x", INLAY_FLOAT, 2, "N", "T");
        }
        n = batched ? node(graph, "Scan", LIST(s, s, input), LIST(sum, steps))
                    : node(graph, "Scan", LIST(s, input), LIST(sum, steps));
        if (batched)
            ((uint32_t *)(uintptr_t)n->info.inputs)[0] = INLAY_NONE;
        assert_int_equal(graph_set_attr_int(graph, n, "num_scan_inputs", 1), INLAY_OK);
        if (!batched)
            assert_int_equal(graph_set_attr_ints(graph, n, "scan_input_axes", &rows[row].axis, 1), INLAY_OK);
        body = graph_create(model, graph, "body");
        a = untyped_value(body, "a");
        b = untyped_value(body, "b");
        next = untyped_value(body, "next");
        out = untyped_value(body, "out");
        node(body, "Add", LIST(a, b), LIST(next));
        node(body, "Identity", LIST(next), LIST(out));
        formals(body, LIST(a, b), LIST(next, out));
        attach(n, "body", body, NOTHING, NOTHING);
        formals(graph, LIST(s, input), LIST(sum, steps));
        check(model, NULL);
        expect(graph, sum, rows[row].sums);
        expect(graph, steps, rows[row].steps);
        graph_model_destroy(model);
    }
}

static void test_sequence_map(void **state)
{
    graph_model *model = new_model();
    struct graph *graph = model->main, *body = graph_create(model, graph, "body");
    uint32_t s = value(graph, "s", INLAY_FLOAT, 2, "?", "3"), y = untyped_value(graph, "y"),
             e = untyped_value(body, "e"), f = untyped_value(body, "f");
    graph_node *n = node(graph, "SequenceMap", LIST(s), LIST(y));

    (void)state;
    graph->values[s].info.kind = INLAY_VALUE_SEQUENCE;
    graph->values[s].inner_kind = INLAY_VALUE_TENSOR;
    node(body, "Shape", LIST(e), LIST(f));
    formals(body, LIST(e), LIST(f));
    attach(n, "body", body, NOTHING, NOTHING);
    formals(graph, LIST(s), LIST(y));
    check(model, NULL); /* S is one type parameter for both sides in the schema, but the body decides */
    expect(graph, y, "seq int64 2");
    graph_model_destroy(model);
}

/* Declared types of inner values fill in unknown facts, and do not override inferred ones. */
static void test_declared(void **state)
{
    graph_model *model = new_model();
    struct graph *graph = model->main;
    uint32_t x = value(graph, "x", INLAY_FLOAT, 2, "N", "3"), y = untyped_value(graph, "y"),
             s = untyped_value(graph, "s"), z = untyped_value(graph, "z");
    uint32_t last = untyped_value(graph, "last");
    inlay_dim wrong[] = { dim_fixed(1), dim_fixed(2), dim_fixed(3) };

    (void)state;
    node(graph, "Relu", LIST(x), LIST(y));
    value(graph, "shape", INLAY_INT64, -1, "", "");
    s = graph_find_value(graph, "shape");
    node(graph, "Reshape", LIST(x, s), LIST(z));
    node(graph, "Reshape", LIST(x, s), LIST(last));
    formals(graph, LIST(x, s), LIST(y, last));
    for (uint32_t value_index = y; value_index <= last; value_index++) {
        graph->values[value_index].declared = value_index != s;
        graph->values[value_index].declared_rank = 3;
        graph->values[value_index].declared_dims = wrong;
        graph->values[value_index].declared_dtype = INLAY_FLOAT;
    }
    check(model, NULL);
    expect(graph, y, "float N 3");
    expect(graph, z, "float 1 2 3");
    expect(graph, last, "float unknown"); /* the inferred shape of an output wins over its declaration */
    graph_model_destroy(model);
}

/* The output that the infer function of the custom operator sets, or its error. */
struct wanted {
    uint32_t output;
    inlay_dtype dtype;
    uint32_t rank;
    inlay_dim dims[2];
    const char *symbol;  /* the first dim; NULL: dims[0] */
    const char *message; /* the error of the infer function; NULL: none */
};

static inlay_status custom_infer(void *ctx, inlay_infer *infer, inlay_diag *diag)
{
    const struct wanted *wanted = ctx;
    inlay_dim dims[2] = { wanted->dims[0], wanted->dims[1] };

    assert_int_equal(infer->input_count, 1);
    assert_non_null(infer->inputs[0]);
    if (wanted->message != NULL)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "%s", wanted->message);
    if (wanted->symbol != NULL)
        dims[0] = (inlay_dim){ -1, INLAY_DIM_SYMBOLIC, infer->symbol(infer->ctx, wanted->symbol) };
    return infer->set_output(infer->ctx, wanted->output, wanted->dtype, wanted->rank, dims);
}

static const inlay_operator *find_custom(void *ctx, const char *domain, const char *op_type, int64_t opset)
{
    (void)opset;
    return strcmp(domain, "com.example") == 0 && strcmp(op_type, "Blur") == 0 ? ctx : NULL;
}

static void describe_missing(void *ctx, const char *domain, const char *op_type, int64_t opset, char *text,
                             size_t bytes)
{
    (void)ctx;
    (void)snprintf(text, bytes, "there is no %s.%s-%lld", domain, op_type, (long long)opset);
}

static inlay_status run_custom(const char *op_type, const char *domain, const char *signature, struct wanted *wanted,
                               char *got, inlay_diag *diag)
{
    inlay_operator op = { .struct_size = sizeof op,
                          .domain = "com.example",
                          .op_type = "Blur",
                          .signature = signature,
                          .since_version = 1,
                          .ctx = wanted,
                          .infer = custom_infer };
    graph_operators operators = { find_custom, describe_missing, &op, "/opt/plugins" };
    graph_model *model = new_model();
    graph_opset both[] = { opset_17, { "com.example", 2 } };
    struct graph *graph = model->main;
    uint32_t x = value(graph, "x", INLAY_FLOAT, 1, "N", ""), output = untyped_value(graph, "y");
    graph_node *n;
    inlay_status status;

    model->opsets = both;
    model->opset_count = 2;
    n = node(graph, op_type, LIST(x), LIST(output));
    n->info.domain = (inlay_str){ domain, strlen(domain) };
    n->opset = 0;
    formals(graph, LIST(x), LIST(output));
    *diag = (inlay_diag)INLAY_DIAG_INIT;
    status = graph_finish(graph, diag);
    if (status == INLAY_OK)
        status = graph_bind(model, &operators, diag);
    if (status == INLAY_OK)
        status = graph_infer(model, diag);
    if (status == INLAY_OK) {
        const inlay_value_info *info = &graph->values[output].info;

        assert_int_equal(n->info.since_version, 1);
        assert_int_equal(n->info.attr_count, 1);
        snprintf(got, 100, "%s %d %s", inlay_dtype_name(info->dtype), (int)info->rank,
                 info->rank == INLAY_RANK_UNKNOWN || info->rank == 0 ? ""
                 : info->dims[0].kind == INLAY_DIM_SYMBOLIC          ? model->symbols[info->dims[0].symbol].name.data
                 : info->dims[0].kind == INLAY_DIM_FIXED             ? "fixed"
                                                                     : "?");
    }
    graph_model_destroy(model);
    return status;
}

static void test_custom(void **state)
{
    static struct {
        const char *op_type, *domain, *signature;
        struct wanted wanted;
        const char *gives, *message;
    } rows[] = {
#define SIGNATURE "X:T -> Y:T; T=float|double; radius:i=3"
        { "Blur", "com.example", SIGNATURE, { .rank = 1, .symbol = "N*2" }, "float 1 N*2", NULL },
        { "Blur",
          "com.example",
          SIGNATURE,
          { .rank = 2, .dims = { { 3, 0, 0 }, { 4, 0, 0 } } },
          "float 2 fixed",
          NULL },
        { "Blur", "com.example", SIGNATURE, { .rank = INLAY_RANK_UNKNOWN }, "float -1 ", NULL },
        { "Blur", "com.example", SIGNATURE, { .rank = 0, .dtype = INLAY_DOUBLE }, "double 0 ", NULL },
        { "Blur", "com.example", SIGNATURE, { .rank = 1, .dims = { { -1, 77, 0 } } }, "float 1 ?", NULL },
        { "Blur", "com.example", SIGNATURE, { .rank = 1, .dims = { { -1, 1, 0 } } }, "float 1 ?", NULL },
        { "Blur",
          "com.example",
          SIGNATURE,
          { .rank = 1, .dims = { { -1, 1, 12345 } } },
          NULL,
          "a symbol that does not exist" },
        { "Blur", "com.example", SIGNATURE, { .rank = 1, .dims = { { -5, 0, 0 } } }, NULL, "would have the size -5" },
        { "Blur", "com.example", SIGNATURE, { .rank = 17 }, NULL, "the rank 17" },
        { "Blur", "com.example", SIGNATURE, { .rank = 0, .dtype = 99 }, NULL, "type number 99" },
        { "Blur", "com.example", SIGNATURE, { .rank = 0, .dtype = INLAY_INT8 }, NULL, "output 0 (Y) would be int8" },
        { "Blur", "com.example", SIGNATURE, { .output = 4 }, NULL, "sets output 4 of 1" },
        { "Blur", "com.example", SIGNATURE, { .message = "radius\nof 3" }, NULL, "radius?of 3" },
        { "Blur", "com.example", "X:T -> Y", { .rank = 0 }, NULL, "the operator's signature" },
        { "Blur", "com.example", "X:S -> Y:T; T=float, S=seq(float)", { .rank = 0 }, NULL, "input 'X' is no tensor" },
        { "Blur",
          "com.example",
          "X:T -> Y:M; T=float, M=map(int64,float)",
          { .rank = 0 },
          NULL,
          "output 'Y' is no tensor" },
        { "Blur",
          "com.example",
          "X:T, S?:S -> Y:T; T=float|seq(float), S=seq(float); radius:i=3",
          { .rank = 0 },
          "float 0 ",
          NULL },
        { "Blurr", "com.example", SIGNATURE, { .rank = 0 }, NULL, "there is no com.example.Blurr-2" },
        { "Blur", "com.other", SIGNATURE, { .rank = 0 }, NULL, "there is no com.other.Blur-1" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        inlay_diag diag;
        char got[128] = "";
        inlay_status status =
            run_custom(rows[i].op_type, rows[i].domain, rows[i].signature, &rows[i].wanted, got, &diag);

        if (rows[i].message != NULL ? status == INLAY_OK || strstr(diag.text, rows[i].message) == NULL
                                    : status != INLAY_OK || strcmp(got, rows[i].gives) != 0)
            fail_msg("row %zu: %d %s %s", i, (int)status, got, diag.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_if),          cmocka_unit_test(test_loop),   cmocka_unit_test(test_nested_loops),
        cmocka_unit_test(test_loop_counts), cmocka_unit_test(test_scan),   cmocka_unit_test(test_sequence_map),
        cmocka_unit_test(test_declared),    cmocka_unit_test(test_custom),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
