/* infer_hostile.c - every infer function with hostile inputs and attributes: sizes of 0 and near 2^63, ranks that do
 * not match, constants with wrong values, attributes with any number. Each call must succeed or fail with a message;
 * sanitizers find other errors. INLAY_ROUNDS is the number of rounds for each operator version, INLAY_SEED the first
 * seed. */
#include "graph/graph.h"
#include "random.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t seed = 1;

static int64_t any_int(void)
{
    static const int64_t values[] = { 0,  1,   2,    3,    -1,        -2,        4,         7,         16,
                                      64, 100, -100, 1000, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, INT64_MAX / 2 };

    return random_below(&seed, 3) == 0 ? values[random_below(&seed, sizeof values / sizeof values[0])]
                                       : (int64_t)random_below(&seed, 4);
}

static inlay_dim any_dim(graph_model *model)
{
    static const char *const names[] = { "N", "H", "a b", "N + 1", "floor((H + 1)/2)" };

    switch (random_below(&seed, 8)) {
    case 0:
        return dim_unknown();
    case 1:
    case 2:
        return (inlay_dim){ -1, INLAY_DIM_SYMBOLIC, graph_symbol(model, names[random_below(&seed, 5)]) };
    case 3:
        return dim_fixed(any_int() & INT64_MAX);
    default:
        return dim_fixed(random_below(&seed, 5));
    }
}

/* Gives a small integer tensor constant data, in a block of exactly its size, or propagated elements. */
static void add_contents(struct graph *graph, uint32_t value_index)
{
    graph_value *value = &graph->values[value_index];
    int64_t dims[INLAY_MAX_RANK], count = 1;
    size_t element = inlay_dtype_bits(value->info.dtype) / 8;

    for (uint32_t d = 0; d < value->info.rank; d++) {
        dims[d] = value->info.dims[d].value;
        if (value->info.dims[d].kind != INLAY_DIM_FIXED || dims[d] > 8)
            return;
        count *= dims[d];
    }
    if (count > 8 || element == 0 || value->info.dtype == INLAY_STRING)
        return;
    if (random_below(&seed, 3) == 0 && (value->info.dtype == INLAY_INT64 || value->info.dtype == INLAY_INT32)) {
        inlay_dim *elements = arena_array(&graph->model->arena, (size_t)count + 1, sizeof *elements);

        for (int64_t element_index = 0; element_index < count; element_index++)
            elements[element_index] = random_below(&seed, 2) == 0 ? any_dim(graph->model) : dim_fixed(any_int());
        value->info.elements = elements;
        value->info.element_count = (uint64_t)count;
        return;
    }
    unsigned char *data = malloc((size_t)count * element + 1);
    assert_non_null(data);
    for (int64_t e = 0; e < count; e++) {
        int64_t number = any_int();
        float f = (float)number / 2;

        if (value->info.dtype == INLAY_FLOAT)
            memcpy(data + (size_t)e * element, &f, sizeof f);
        else
            memcpy(data + (size_t)e * element, &number, element < 8 ? element : 8);
    }
    assert_int_equal(graph_blob_adopt(graph->model, data, (size_t)count * element + 1), INLAY_OK);
    assert_int_equal(graph_set_constant(graph, value_index, value->info.dtype, value->info.rank, dims, data,
                                        (uint64_t)count * element),
                     INLAY_OK);
}

static uint32_t any_value(struct graph *graph, const op_types *types, inlay_dtype *preferred)
{
    uint32_t value_index = graph_add_value(graph, NULL, 0), rank = random_below(&seed, 6);
    inlay_dim *dims = arena_array(&graph->model->arena, INLAY_MAX_RANK, sizeof *dims);
    graph_value *value = &graph->values[value_index];
    uint64_t set = types->tensor;

    if (set == 0 || (types->sequence != 0 && random_below(&seed, 4) == 0)) {
        set = types->sequence != 0 ? types->sequence : types->optional;
        value->info.kind = types->sequence != 0 ? INLAY_VALUE_SEQUENCE : INLAY_VALUE_OPTIONAL;
        value->inner_kind = INLAY_VALUE_TENSOR;
    }
    if (set == 0)
        set = INLAY_DTYPE_BIT(INLAY_FLOAT);
    if (*preferred == INLAY_UNDEFINED || (set & INLAY_DTYPE_BIT(*preferred)) == 0) {
        do
            *preferred = (inlay_dtype)random_below(&seed, INLAY_DTYPE_COUNT);
        while ((set & INLAY_DTYPE_BIT(*preferred)) == 0);
    }
    value->info.dtype = *preferred;
    if (random_below(&seed, 12) == 0)
        return value_index;
    for (uint32_t d = 0; d < INLAY_MAX_RANK; d++)
        dims[d] = any_dim(graph->model);
    value->info.rank = random_below(&seed, 40) == 0 ? INLAY_MAX_RANK : rank;
    value->info.dims = dims;
    if (value->info.kind == INLAY_VALUE_TENSOR && random_below(&seed, 3) != 0)
        add_contents(graph, value_index);
    return value_index;
}

static inlay_status any_attr(struct graph *graph, graph_node *node, const op_attr *attr)
{
    static const char *const words[] = { "SAME_UPPER", "SAME_LOWER", "VALID",         "NOTSET",       "",
                                         "linear",     "ij,jk->ik",  "...i->...",     "a,->,",        "ii->i",
                                         "max",        "reverse",    "bidirectional", "align_corners" };
    int64_t ints[8];
    float floats[4] = { 0.5f, -1e30f, 2, 0 };
    uint32_t count = random_below(&seed, 8);

    for (uint32_t i = 0; i < count; i++)
        ints[i] = any_int();
    switch (attr->kind) {
    case INLAY_ATTR_INT:
        return graph_set_attr_int(graph, node, attr->name, any_int());
    case INLAY_ATTR_FLOAT:
        return graph_set_attr_float(graph, node, attr->name, (double)floats[random_below(&seed, 4)]);
    case INLAY_ATTR_STRING:
        return graph_set_attr_string(graph, node, attr->name,
                                     words[random_below(&seed, sizeof words / sizeof words[0])]);
    case INLAY_ATTR_INTS:
        return graph_set_attr_ints(graph, node, attr->name, ints, count);
    case INLAY_ATTR_FLOATS: {
        const float *copy = arena_copy(&graph->model->arena, floats, sizeof floats);
        inlay_attr_info info = { .name = { attr->name, strlen(attr->name) }, .kind = attr->kind, .floats = copy };

        info.count = random_below(&seed, 5);
        return graph_set_attr(graph, node, &info);
    }
    default:
        return INLAY_OK;
    }
}

static void *schema_alloc(void *ctx, size_t bytes)
{
    return arena_alloc(ctx, bytes);
}

static void infer_random_node(const char *domain, const op_row *row)
{
    graph_model *model = graph_model_create();
    graph_opset opset = { domain, row->since_version };
    inlay_dtype chosen[3 * OP_MAX_FORMALS] = { INLAY_UNDEFINED };
    inlay_diag diag = INLAY_DIAG_INIT;
    uint32_t inputs, outputs;
    inlay_status status;
    op_schema schema;
    graph_node *node;
    struct graph *graph;

    assert_non_null(model);
    graph = model->main;
    model->opsets = &opset;
    model->opset_count = 1;
    assert_int_equal(op_schema_parse(row->signature, schema_alloc, &model->arena, &schema, &diag), INLAY_OK);
    inputs = schema.max_inputs == UINT32_MAX ? schema.min_inputs + random_below(&seed, 4) : schema.max_inputs;
    outputs = schema.max_outputs == UINT32_MAX ? schema.min_outputs + random_below(&seed, 4) : schema.max_outputs;
    outputs = random_below(&seed, 3) == 0 ? schema.min_outputs : outputs;
    node = graph_add_node(graph, row->op_type, domain, "n", inputs, outputs);
    assert_non_null(node);
    for (uint32_t i = 0; i < inputs; i++) {
        const op_formal *formal = op_input_formal(&schema, i);
        uint32_t v = INLAY_NONE;

        if (formal->option != OP_OPTIONAL || random_below(&seed, 2) == 0)
            v = any_value(graph, &schema.types[formal->type_param].types, &chosen[formal->type_param]);
        ((uint32_t *)(uintptr_t)node->info.inputs)[i] = v;
    }
    for (uint32_t o = 0; o < outputs; o++)
        ((uint32_t *)(uintptr_t)node->info.outputs)[o] =
            random_below(&seed, 8) == 0 ? INLAY_NONE : graph_add_value(graph, NULL, 0);
    for (uint32_t i = 0; i < schema.attr_count; i++)
        if (schema.attrs[i].required || random_below(&seed, 2) == 0)
            assert_int_equal(any_attr(graph, node, &schema.attrs[i]), INLAY_OK);
    status = graph_bind(model, NULL, &diag);
    if (status == INLAY_OK)
        status = graph_infer(model, &diag);
    if (status != INLAY_OK && diag.text[0] == '\0')
        fail_msg("%s-%u fails with %d and without a message", row->op_type, row->since_version, (int)status);
    for (uint32_t output = 0; status == INLAY_OK && output < outputs; output++) {
        const graph_value *value =
            node->info.outputs[output] == INLAY_NONE ? NULL : &graph->values[node->info.outputs[output]];

        for (uint32_t d = 0; value != NULL && value->info.rank != INLAY_RANK_UNKNOWN && d < value->info.rank; d++) {
            const inlay_dim dim = value->info.dims[d];

            assert_true(dim.kind != INLAY_DIM_FIXED || dim.value >= 0);
            assert_true(dim.kind != INLAY_DIM_SYMBOLIC || (dim.symbol > 0 && dim.symbol < model->symbol_count));
        }
    }
    graph_model_destroy(model);
}

static uint32_t number_from(const char *name, uint32_t otherwise)
{
    const char *text = getenv(name);

    return text != NULL ? (uint32_t)strtoul(text, NULL, 10) : otherwise;
}

static void test_hostile(void **state)
{
    uint32_t count, rounds = number_from("INLAY_ROUNDS", 40), first = number_from("INLAY_SEED", 1);
    const op_table *const *tables = op_tables(&count);

    (void)state;
    for (uint32_t table = 0; table < count; table++) {
        for (uint32_t row = 0; row < tables[table]->count; row++) {
            if (tables[table]->rows[row].infer == NULL)
                continue;
            for (uint32_t round = 0; round < rounds; round++) {
                seed = ((uint64_t)(first + round) << 32) + table * 1000 + row;
                infer_random_node(tables[table]->domain, &tables[table]->rows[row]);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
