/* The key of a region in the engine cache: it changes with every field that inlay_provider.fingerprint promises, and
 * with nothing else. Each row changes one field of a scene: a region of two nodes within a graph of three. */
#include "cmocka_all.h"
#include "plan/program/region_key.h"
#include <string.h>

enum { VALUES = 7, NODES = 3, SYMBOLS = 4, FIRST_DOMAIN = 5 };
enum { X, Y, WEIGHT, SUM, RESULT, SIZES, OUTSIDE };

/* The element of an array of the host's that has grown: fields of a later version, which the key does not contain. */
typedef struct wide_placement {
    inlay_placement placement;
    uint64_t later;
} wide_placement;

struct scene {
    partition_provider provider;
    inlay_provider table;
    inlay_fingerprint fingerprint;
    inlay_graph graph;
    inlay_node_info nodes[NODES];
    inlay_value_info values[VALUES];
    inlay_symbol_info symbols[SYMBOLS];
    inlay_dim dims[VALUES][2], elements[2];
    inlay_attr_info attr;
    inlay_tensor_view tensor;
    uint32_t add_inputs[2], mul_inputs[2], outside_inputs[1], add_outputs[1], mul_outputs[1], outside_outputs[1];
    uint32_t region_nodes[2], region_inputs[3], region_outputs[2];
    uint64_t cookies[2];
    wide_placement placements[5];
    inlay_value_state profile[VALUES];
    int64_t profile_dims[2], sizes[2], tensor_dims[1], ints[2];
    float floats[2], tensor_data[2];
    inlay_str strings[2];
    inlay_compile_request request;
};

static inlay_str text(const char *data)
{
    return (inlay_str){ data, strlen(data) };
}

static void make_values(struct scene *s)
{
    static const char *const names[VALUES] = { "x", "y", "w", "sum", "result", "sizes", "outside" };

    s->symbols[1] = (inlay_symbol_info){ .name = text("n"), .min = 1, .max = 64 };
    s->symbols[2] = (inlay_symbol_info){ .name = text("m"), .min = 1, .max = 64 };
    s->symbols[3] = (inlay_symbol_info){ .name = text("(n/2)"), .min = 0, .max = 32 };
    for (uint32_t i = 0; i < VALUES; i++) {
        s->dims[i][0] = (inlay_dim){ .value = -1, .kind = INLAY_DIM_SYMBOLIC, .symbol = 1 };
        s->dims[i][1] = (inlay_dim){ .value = 8, .kind = INLAY_DIM_FIXED };
        s->values[i] = (inlay_value_info){ .name = text(names[i]),
                                           .kind = INLAY_VALUE_TENSOR,
                                           .dtype = INLAY_FLOAT,
                                           .rank = 2,
                                           .dims = s->dims[i],
                                           .producer = INLAY_NONE };
    }
    s->values[WEIGHT].flags = INLAY_VALUE_CONSTANT;
    s->values[WEIGHT].content_hash = 77;
    s->sizes[0] = 3;
    s->elements[0] = (inlay_dim){ .value = 3, .kind = INLAY_DIM_FIXED };
    s->elements[1] = (inlay_dim){ .value = -1, .kind = INLAY_DIM_SYMBOLIC, .symbol = 1 };
    s->values[SIZES].dtype = INLAY_INT64;
    s->values[SIZES].data = s->sizes;
    s->values[SIZES].data_bytes = sizeof s->sizes;
    s->values[SIZES].elements = s->elements;
    s->values[SIZES].element_count = 2;
}

static inlay_node_info node(const char *name, const char *op, const uint32_t *inputs, uint32_t input_count,
                            const uint32_t *outputs)
{
    return (inlay_node_info){ .name = text(name),
                              .domain = text("ai.onnx"),
                              .op_type = text(op),
                              .since_version = 14,
                              .inputs = inputs,
                              .outputs = outputs,
                              .input_count = input_count,
                              .output_count = 1,
                              .attr_stride = sizeof(inlay_attr_info),
                              .body_stride = 1 };
}

static void make_nodes(struct scene *s)
{
    s->outside_inputs[0] = X, s->outside_outputs[0] = OUTSIDE;
    s->add_inputs[0] = X, s->add_inputs[1] = Y, s->add_outputs[0] = SUM;
    s->mul_inputs[0] = SUM, s->mul_inputs[1] = WEIGHT, s->mul_outputs[0] = RESULT;
    s->nodes[0] = node("outside", "Relu", s->outside_inputs, 1, s->outside_outputs);
    s->nodes[1] = node("add", "Add", s->add_inputs, 2, s->add_outputs);
    s->nodes[2] = node("mul", "Mul", s->mul_inputs, 2, s->mul_outputs);
    s->attr = (inlay_attr_info){ .name = text("axis"), .kind = INLAY_ATTR_INT, .i = 1 };
    s->ints[0] = 1, s->floats[0] = 1, s->tensor_data[0] = 1, s->tensor_dims[0] = 2;
    s->strings[0] = text("a"), s->strings[1] = text("b");
    s->tensor = (inlay_tensor_view){ s->tensor_data, sizeof s->tensor_data, s->tensor_dims, 1, INLAY_FLOAT };
    s->nodes[2].attrs = &s->attr;
    s->nodes[2].attr_count = 1;
}

static void make_request(struct scene *s)
{
    s->region_nodes[0] = 1, s->region_nodes[1] = 2;
    s->region_inputs[0] = X, s->region_inputs[1] = Y, s->region_inputs[2] = SIZES;
    s->region_outputs[0] = RESULT, s->region_outputs[1] = SUM;
    s->profile_dims[0] = 4, s->profile_dims[1] = 8;
    for (uint32_t i = 0; i < VALUES; i++)
        s->profile[i] = (inlay_value_state){ .dims = s->profile_dims, .rank = 2, .dtype = INLAY_FLOAT };
    for (uint32_t i = 0; i < 5; i++)
        s->placements[i].placement.domain = FIRST_DOMAIN;
    s->request = (inlay_compile_request){ .struct_size = sizeof s->request,
                                          .graph = &s->graph,
                                          .nodes = s->region_nodes,
                                          .cookies = s->cookies,
                                          .inputs = s->region_inputs,
                                          .outputs = s->region_outputs,
                                          .node_count = 2,
                                          .offer_count = 2,
                                          .input_count = 3,
                                          .output_count = 2,
                                          .placements = &s->placements[0].placement,
                                          .placement_stride = sizeof s->placements[0],
                                          .profile = s->profile,
                                          .profile_stride = sizeof s->profile[0],
                                          .max_threads = 4 };
}

static void make_scene(struct scene *s)
{
    memset(s, 0, sizeof *s);
    make_values(s);
    make_nodes(s);
    make_request(s);
    s->table = (inlay_provider){ .struct_size = sizeof s->table, .name = "chip" };
    s->provider = (partition_provider){
        .table = &s->table, .name = "chip", .build_id = "build", .settings_hash = 9, .first_domain = FIRST_DOMAIN
    };
    s->fingerprint = (inlay_fingerprint){ .struct_size = sizeof s->fingerprint, .data = "driver", .bytes = 6 };
    s->graph = (inlay_graph){ .struct_size = sizeof s->graph,
                              .name = text("graph"),
                              .content_hash = 1,
                              .nodes = s->nodes,
                              .values = s->values,
                              .symbols = s->symbols,
                              .node_count = NODES,
                              .node_stride = sizeof s->nodes[0],
                              .value_count = VALUES,
                              .value_stride = sizeof s->values[0],
                              .symbol_count = SYMBOLS,
                              .symbol_stride = sizeof s->symbols[0] };
}

static region_key key_of(const struct scene *s)
{
    region_key key;

    assert_true(region_key_of(&s->provider, &s->fingerprint, &s->request, &key));
    return key;
}

struct change {
    const char *what;
    void (*before)(struct scene *s); /* a change that makes the field part of the key; NULL: it always is */
    void (*apply)(struct scene *s);
};

#define CHANGE(name, statement)                                                                                        \
    static void name(struct scene *s)                                                                                  \
    {                                                                                                                  \
        statement;                                                                                                     \
    }
CHANGE(provider_name, s->table.name = "chop")
CHANGE(build, s->provider.build_id = "another")
CHANGE(user_options, s->provider.settings_hash = 10)
CHANGE(driver, s->fingerprint.data = "DRIVER")
CHANGE(driver_bytes, s->fingerprint.bytes = 5)
CHANGE(op_type, s->nodes[1].op_type = text("Sub"))
CHANGE(op_domain, s->nodes[1].domain = text("com.example"))
CHANGE(op_version, s->nodes[1].since_version = 13)
CHANGE(node_count, s->request.node_count = 1)
CHANGE(operands, (s->add_inputs[0] = Y, s->add_inputs[1] = X))
CHANGE(operand_twice, s->add_inputs[1] = X)
CHANGE(operand_omitted, s->add_inputs[1] = INLAY_NONE)
CHANGE(input_order, (s->region_inputs[0] = Y, s->region_inputs[1] = X))
CHANGE(output_order, (s->region_outputs[0] = SUM, s->region_outputs[1] = RESULT))
CHANGE(output_count, s->request.output_count = 1)
CHANGE(constant, s->values[WEIGHT].content_hash = 78)
CHANGE(dtype, s->values[SUM].dtype = INLAY_DOUBLE)
CHANGE(kind, s->values[Y].kind = INLAY_VALUE_SEQUENCE)
CHANGE(rank, s->values[SUM].rank = 1)
CHANGE(unknown_rank, s->values[SUM].rank = INLAY_RANK_UNKNOWN)
CHANGE(fixed_size, s->dims[RESULT][1].value = 9)
CHANGE(unknown_size, s->dims[RESULT][0] = ((inlay_dim){ .value = -1, .kind = INLAY_DIM_UNKNOWN }))
CHANGE(other_symbol, s->dims[Y][0].symbol = 2) /* bounds of the same size, but it does not recur */
CHANGE(symbol_min, s->symbols[1].min = 2)
CHANGE(symbol_max, s->symbols[1].max = 65)
CHANGE(known_element, s->sizes[0] = 4)
CHANGE(unknown_element, s->values[SIZES].data = NULL)
CHANGE(known_size, s->elements[0].value = 4)
CHANGE(known_symbol, s->elements[1].symbol = 2)
CHANGE(input_domain, s->placements[1].placement.domain = FIRST_DOMAIN + 1)
CHANGE(input_on_host, s->placements[1].placement.domain = INLAY_DOMAIN_HOST)
CHANGE(input_type, s->placements[1].placement.dtype = INLAY_BFLOAT16)
CHANGE(output_domain, s->placements[4].placement.domain = FIRST_DOMAIN + 1)
CHANGE(output_type, s->placements[4].placement.dtype = INLAY_BFLOAT16)
CHANGE(expression, s->dims[Y][0].symbol = 3)
CHANGE(expression_name, s->symbols[3].name = text("(n/3)"))
CHANGE(by_threads, s->fingerprint.flags = INLAY_FINGERPRINT_THREADS)
CHANGE(threads, s->request.max_threads = 5)
CHANGE(by_profile, s->fingerprint.flags = INLAY_FINGERPRINT_PROFILE)
CHANGE(profile, s->profile_dims[0] = 5)
CHANGE(profile_rank, s->profile[X].rank = 1)
CHANGE(no_profile, s->request.profile = NULL)
CHANGE(attr_name, s->attr.name = text("axes"))
CHANGE(attr_int, s->attr.i = 2)
CHANGE(no_attr, s->nodes[2].attr_count = 0)
CHANGE(with_float, (s->attr.kind = INLAY_ATTR_FLOAT, s->attr.f = 1))
CHANGE(attr_float, s->attr.f = 2)
CHANGE(with_text, (s->attr.kind = INLAY_ATTR_STRING, s->attr.s = text("same")))
CHANGE(attr_text, s->attr.s = text("other"))
CHANGE(with_ints, (s->attr.kind = INLAY_ATTR_INTS, s->attr.ints = s->ints, s->attr.count = 2))
CHANGE(attr_ints, s->ints[1] = 7)
CHANGE(attr_count, s->attr.count = 1)
CHANGE(with_floats, (s->attr.kind = INLAY_ATTR_FLOATS, s->attr.floats = s->floats, s->attr.count = 2))
CHANGE(attr_floats, s->floats[1] = 7)
CHANGE(with_texts, (s->attr.kind = INLAY_ATTR_STRINGS, s->attr.strings = s->strings, s->attr.count = 2))
CHANGE(attr_texts, s->strings[1] = text("c"))
CHANGE(with_tensor, (s->attr.kind = INLAY_ATTR_TENSOR, s->attr.tensor = &s->tensor))
CHANGE(attr_tensor, s->tensor_data[1] = 7)
CHANGE(tensor_size, s->tensor_dims[0] = 1)

/* What the key promises to contain. */
static const struct change counted[] = {
    { "name of the provider", NULL, provider_name },
    { "build_id", NULL, build },
    { "options of the user", NULL, user_options },
    { "fingerprint", NULL, driver },
    { "size of the fingerprint", NULL, driver_bytes },
    { "operator", NULL, op_type },
    { "domain of an operator", NULL, op_domain },
    { "version of an operator", NULL, op_version },
    { "number of nodes", NULL, node_count },
    { "values between nodes: order of operands", NULL, operands },
    { "values between nodes: an operand twice", NULL, operand_twice },
    { "values between nodes: an operand omitted", NULL, operand_omitted },
    { "order of inputs", NULL, input_order },
    { "order of outputs", NULL, output_order },
    { "number of outputs", NULL, output_count },
    { "contents of a constant", NULL, constant },
    { "element type", NULL, dtype },
    { "kind of a value", NULL, kind },
    { "rank", NULL, rank },
    { "unknown rank", NULL, unknown_rank },
    { "fixed size", NULL, fixed_size },
    { "unknown size", NULL, unknown_size },
    { "where a symbol recurs", NULL, other_symbol },
    { "lower bound of a symbol", NULL, symbol_min },
    { "upper bound of a symbol", NULL, symbol_max },
    { "name of a symbol that is an expression", expression, expression_name },
    { "known element", NULL, known_element },
    { "element no longer known", NULL, unknown_element },
    { "known dimension", NULL, known_size },
    { "known symbol", NULL, known_symbol },
    { "domain of an input", NULL, input_domain },
    { "input on the host", NULL, input_on_host },
    { "placement type of an input", NULL, input_type },
    { "domain of an output", NULL, output_domain },
    { "placement type of an output", NULL, output_type },
    { "number of threads", by_threads, threads },
    { "profile", by_profile, profile },
    { "rank in the profile", by_profile, profile_rank },
    { "no profile", by_profile, no_profile },
    { "name of an attribute", NULL, attr_name },
    { "INT attribute", NULL, attr_int },
    { "no attribute", NULL, no_attr },
    { "FLOAT attribute", with_float, attr_float },
    { "STRING attribute", with_text, attr_text },
    { "INTS attribute", with_ints, attr_ints },
    { "size of an INTS attribute", with_ints, attr_count },
    { "FLOATS attribute", with_floats, attr_floats },
    { "STRINGS attribute", with_texts, attr_texts },
    { "TENSOR attribute", with_tensor, attr_tensor },
    { "dims of a TENSOR attribute", with_tensor, tensor_size },
};

CHANGE(padding, (s->placements[1].placement.reserved = 1, s->placements[4].placement.reserved = UINT32_MAX))
CHANGE(later_fields, (s->placements[0].later = 1, s->placements[4].later = UINT64_MAX))
CHANGE(node_names, (s->nodes[1].name = text("plus"), s->nodes[2].name = text("times")))
CHANGE(value_names, (s->values[X].name = text("left"), s->values[SUM].name = text("s")))
CHANGE(graph_name, (s->graph.name = text("other"), s->graph.content_hash = 2))
CHANGE(symbol_name, s->symbols[1].name = text("batch"))
CHANGE(rest_of_graph, (s->nodes[0].op_type = text("Neg"), s->values[OUTSIDE].dtype = INLAY_DOUBLE))
CHANGE(cookies, (s->cookies[0] = 1, s->cookies[1] = 2))
CHANGE(outer_flags,
       (s->values[X].flags |= INLAY_VALUE_GRAPH_INPUT, s->values[RESULT].flags |= INLAY_VALUE_GRAPH_OUTPUT))
CHANGE(producers, (s->values[X].producer = 0, s->values[SUM].producer = 2))

static void next_domain(struct scene *s)
{
    s->provider.first_domain++;
    for (int i = 0; i < 5; i++)
        s->placements[i].placement.domain++;
}

/* All symbols move by one index. */
static void index_of_symbols(struct scene *s)
{
    s->symbols[2] = s->symbols[1];
    for (uint32_t i = 0; i < VALUES; i++)
        s->dims[i][0].symbol = 2;
    s->elements[1].symbol = 2;
}

/* X and OUTSIDE exchange their indices. */
static void index_of_values(struct scene *s)
{
    const inlay_value_info x = s->values[X];

    s->values[X] = s->values[OUTSIDE];
    s->values[OUTSIDE] = x;
    s->add_inputs[0] = s->region_inputs[0] = s->outside_inputs[0] = OUTSIDE;
    s->outside_outputs[0] = X;
    for (uint32_t i = 0; i < 3; i++)
        s->placements[i].placement.value = s->region_inputs[i];
}

/* The node outside of the region comes last. */
static void index_of_nodes(struct scene *s)
{
    const inlay_node_info outside = s->nodes[0];

    s->nodes[0] = s->nodes[1];
    s->nodes[1] = s->nodes[2];
    s->nodes[2] = outside;
    s->region_nodes[0] = 0;
    s->region_nodes[1] = 1;
}

/* What it promises not to contain. */
static const struct change ignored[] = {
    { "padding of a placement", NULL, padding },
    { "later fields of a placement", NULL, later_fields },
    { "names of nodes", NULL, node_names },
    { "names of values", NULL, value_names },
    { "the graph", NULL, graph_name },
    { "name of a symbol", NULL, symbol_name },
    { "index of symbols", NULL, index_of_symbols },
    { "index of values", NULL, index_of_values },
    { "index of nodes", NULL, index_of_nodes },
    { "rest of the graph", NULL, rest_of_graph },
    { "cookies", NULL, cookies },
    { "whether the graph has the value as input or output", NULL, outer_flags },
    { "producers", NULL, producers },
    { "number of threads", NULL, threads },
    { "profile", NULL, profile },
    { "ids of domains", NULL, next_domain },
};

static void try_change(const struct change *row, bool counts)
{
    static struct scene before, after;
    region_key one, other;

    make_scene(&before);
    make_scene(&after);
    if (row->before != NULL) {
        row->before(&before);
        row->before(&after);
    }
    one = key_of(&before);
    other = key_of(&after);
    assert_memory_equal(&one, &other, sizeof one);
    row->apply(&after);
    other = key_of(&after);
    for (int word = 0; word < 2; word++)
        if ((one.word[word] != other.word[word]) != counts)
            fail_msg("%s: word %d of the key %s", row->what, word, counts ? "is the same" : "differs");
}

static void promised_fields_count(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++)
        try_change(&counted[i], true);
}

static void nothing_else_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        try_change(&ignored[i], false);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(promised_fields_count),
                                        cmocka_unit_test(nothing_else_counts) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
