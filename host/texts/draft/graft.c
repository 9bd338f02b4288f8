#include "texts/draft/graft.h"
#include "base/memory.h"
#include "texts/draft/onnx_copy.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_NODES = 32, /* of the model, around the head */
    MOST_DEPTH = 8   /* nodes between a weight and its reader */
};
static const char EMBEDS[] = "inputs_embeds", IDS[] = "input_ids";
static const char PREFIX[] = "target/"; /* of the names of the model's values and nodes */

/* The nodes of the model's file that compute `output` from `input`, in order, and the constants that they read. */
struct part {
    wire_span nodes[MOST_NODES], weights[MOST_NODES];
    uint32_t node_count, weight_count;
    wire_span input, output;
    uint64_t dtype; /* of the floats that it computes with: that of its weights or their scales */
};

static bool find_producer(wire_span graph, wire_span value, wire_span *out)
{
    wire_field item, output;

    while (wire_next(&graph, &item))
        for (uint32_t i = 0; item.number == GRAPH_NODE && onnx_field(item.data, NODE_OUTPUT, i, &output); i++)
            if (onnx_same(output.data, value)) {
                *out = item.data;
                return true;
            }
    return false;
}

static bool has(const wire_span *list, uint32_t count, wire_span item)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i].at == item.at)
            return true;
    return false;
}

static bool add_once(wire_span *list, uint32_t *count, wire_span item)
{
    if (has(list, *count, item))
        return true;
    if (*count == MOST_NODES)
        return false;
    list[(*count)++] = item;
    return true;
}

/* Whether the value is a constant, which the part then has, with the nodes that compute it from weights. */
static bool add_constant(const onnx_file *model, wire_span value, uint32_t depth, struct part *part)
{
    static const char *const ops[] = { "Constant", "Transpose", "Cast", "Identity", "DequantizeLinear" };
    const uint32_t nodes = part->node_count, weights = part->weight_count;
    wire_span found;
    wire_field input;

    if (value.count == 0) /* an omitted input */
        return true;
    if (onnx_named(model->graph, GRAPH_INITIALIZER, TENSOR_NAME, value, &found))
        return add_once(part->weights, &part->weight_count, found);
    if (depth == MOST_DEPTH || !find_producer(model->graph, value, &found) || !ONNX_IS_ONE_OF(found, ops))
        return false;
    for (uint32_t i = 0; onnx_field(found, NODE_INPUT, i, &input); i++)
        if (!add_constant(model, input.data, depth + 1, part)) {
            part->node_count = nodes;
            part->weight_count = weights;
            return false;
        }
    return add_once(part->nodes, &part->node_count, found);
}

/* The type of the first weight of floats from position `first` on; 0: there is none. */
static uint64_t float_type(const struct part *part, uint32_t first)
{
    wire_field type;

    for (uint32_t i = first; i < part->weight_count; i++)
        if (onnx_field(part->weights[i], TENSOR_TYPE, 0, &type) &&
            (type.value == INLAY_FLOAT || type.value == INLAY_FLOAT16 || type.value == INLAY_BFLOAT16))
            return type.value;
    return 0;
}

/* Whether the node looks up rows of a table by the tokens; a table of floats has rows of `width` numbers. */
static bool add_lookup(const onnx_file *model, wire_span node, uint64_t width, struct part *part)
{
    static const char *const ops[] = { "Gather", "com.microsoft.GatherBlockQuantized" };
    wire_span index = onnx_text(node, NODE_INPUT, 1), cast, table;
    wire_field input, last;

    *part = (struct part){ .input = onnx_span(IDS) };
    if (!ONNX_IS_ONE_OF(node, ops))
        return false;
    if (find_producer(model->graph, index, &cast) && (onnx_is_op(cast, "Cast") || onnx_is_op(cast, "Identity"))) {
        part->nodes[part->node_count++] = cast;
        index = onnx_text(cast, NODE_INPUT, 0);
    }
    if (!wire_is(index, IDS))
        return false;
    if (onnx_named(model->graph, GRAPH_INITIALIZER, TENSOR_NAME, onnx_text(node, NODE_INPUT, 0), &table) &&
        onnx_is_op(node, "Gather") && (!onnx_field(table, TENSOR_DIM, 1, &last) || last.value != width))
        return false;
    for (uint32_t i = 0; onnx_field(node, NODE_INPUT, i, &input); i++)
        if (i != 1 && !add_constant(model, input.data, 0, part))
            return false;
    part->dtype = float_type(part, 0);
    part->output = onnx_text(node, NODE_OUTPUT, 0);
    return part->dtype != 0 && add_once(part->nodes, &part->node_count, node);
}

static inlay_status find_embedding(const onnx_file *model, uint64_t width, struct part *part, inlay_diag *diag)
{
    wire_span rest = model->graph;
    wire_field item;

    while (wire_next(&rest, &item))
        if (item.number == GRAPH_NODE && add_lookup(model, item.data, width, part))
            return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "input 'inputs_embeds' needs the embedding of the model, which has no Gather or "
                      "GatherBlockQuantized of 'input_ids' with rows of %llu floats; export the head with 'input_ids'",
                      (unsigned long long)width);
}

/* Walks from the logits of the model back to the product that makes them. */
static inlay_status find_product(const onnx_file *model, struct part *part, inlay_diag *diag)
{
    static const char *const products[] = { "MatMul", "Gemm", "com.microsoft.MatMulNBits", "com.microsoft.MatMulBnb4" };
    static const char *const passed[] = { "Cast", "Mul", "Div", "Add", "Tanh", "Identity" };
    wire_span path[MOST_DEPTH], value = onnx_span("logits"), node;
    uint32_t count = 0;

    *part = (struct part){ .output = value };
    while (count < MOST_DEPTH && find_producer(model->graph, value, &node)) {
        const bool is_product = ONNX_IS_ONE_OF(node, products);
        const uint32_t weights = part->weight_count;
        uint32_t others = 0, other = 0;
        wire_field input;

        for (uint32_t i = 0; onnx_field(node, NODE_INPUT, i, &input); i++)
            if (!add_constant(model, input.data, 0, part)) {
                others++;
                other = i;
                value = input.data;
            }
        path[count++] = node;
        if (others != 1 || (is_product ? other != 0 : !ONNX_IS_ONE_OF(node, passed)))
            return inlay_fail(
                diag, INLAY_INVALID_ARGUMENT,
                "it has no output 'logits', and those of the model come from node '%.*s' (%.*s), which is "
                "not understood; export the head with the product that makes them",
                ONNX_SHOWN(onnx_label(node)), ONNX_SHOWN(onnx_text(node, NODE_OP, 0)));
        if (!is_product)
            continue;
        part->input = value;
        part->dtype = float_type(part, weights);
        while (count > 0)
            if (!add_once(part->nodes, &part->node_count, path[--count]))
                part->dtype = 0;
        if (part->dtype != 0)
            return INLAY_OK;
    }
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                      "it has no output 'logits', and the model has no product of weights that makes them; export the "
                      "head with the product");
}

/* Checks that the nodes compute the same with the operator versions of the head. *out_imports becomes true if the head
 * does not import com.microsoft. */
static inlay_status check_versions(const onnx_file *model, const onnx_file *head, const struct part *part,
                                   bool *out_imports, inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < part->node_count && status == INLAY_OK; i++)
        status = onnx_check_version(model, head, part->nodes[i], out_imports, diag);
    return status;
}

static void write_node(struct wire *out, const onnx_file *model, wire_span node)
{
    const wire_mark mark = wire_begin(out, GRAPH_NODE);
    wire_field item;

    while (wire_next(&node, &item)) {
        if (item.number == NODE_INPUT && wire_is(item.data, IDS))
            wire_raw(out, item.whole.at, item.whole.count);
        else if (item.number == NODE_INPUT || item.number == NODE_OUTPUT || item.number == NODE_NAME)
            onnx_write_name(out, item.number, PREFIX, item.data);
        else
            onnx_copy_field(out, model, ONNX_NODE, &item, 0);
    }
    wire_end(out, mark);
}

static void write_cast(struct wire *out, const char *from_prefix, wire_span from, const char *to_prefix, wire_span to,
                       uint64_t dtype)
{
    const wire_mark mark = wire_begin(out, GRAPH_NODE);

    onnx_write_name(out, NODE_INPUT, from_prefix, from);
    onnx_write_name(out, NODE_OUTPUT, to_prefix, to);
    wire_text(out, NODE_OP, "Cast");
    onnx_write_int(out, "to", (int64_t)dtype);
    wire_end(out, mark);
}

/* Writes a part, without what `written` has, too: a table may be both the embedding and the weight of the product. */
static void write_part(struct wire *out, const onnx_file *model, const struct part *part, const struct part *written)
{
    for (uint32_t i = 0; i < part->node_count; i++)
        if (!has(written->nodes, written->node_count, part->nodes[i]))
            write_node(out, model, part->nodes[i]);
    for (uint32_t i = 0; i < part->weight_count; i++)
        if (!has(written->weights, written->weight_count, part->weights[i]))
            onnx_copy_tensor(out, GRAPH_INITIALIZER, model, part->weights[i], PREFIX);
}

/* What the head lacks. */
struct plan {
    bool lacks_embedding, lacks_product, imports;
    const char *narrow; /* name of its logits, if they have 16 bits and become floats; NULL: they are floats */
    wire_span narrow_shape;
    wire_span embeds, hidden; /* its input in place of the embedding; its output that the product reads */
    wire_span embeds_shape, hidden_shape;
    uint64_t embeds_type, embeds_width;
    struct part embedding, product;
};

/* Finds what the head lacks; the hidden states that make its logits are its only output of that form. false: it has
 * both. */
static bool find_gaps(const onnx_file *head, struct plan *plan)
{
    wire_span rest = head->graph;
    uint32_t outputs = 0;
    bool has_logits = false;
    wire_field item;

    while (wire_next(&rest, &item)) {
        const wire_span name = onnx_text(item.data, VALUE_NAME, 0);
        uint64_t width;
        wire_span shape;

        if (item.number == GRAPH_INPUT && wire_is(name, EMBEDS)) {
            plan->embeds = item.data;
            plan->embeds_type = onnx_float_rows(item.data, &plan->embeds_shape, &plan->embeds_width);
            plan->lacks_embedding = plan->embeds_type != 0;
        } else if (item.number == GRAPH_OUTPUT && (wire_is(name, "logits") || wire_is(name, "draft_logits"))) {
            const uint64_t type = onnx_float_rows(item.data, &shape, &width);

            has_logits = true;
            if (type != 0 && type != INLAY_FLOAT) {
                plan->narrow = wire_is(name, "logits") ? "logits" : "draft_logits";
                plan->narrow_shape = shape;
            }
        } else if (item.number == GRAPH_OUTPUT && onnx_float_rows(item.data, &shape, &width) != 0) {
            outputs++;
            plan->hidden = name;
            plan->hidden_shape = shape;
        }
    }
    plan->lacks_product = !has_logits && outputs == 1;
    return plan->lacks_embedding || plan->lacks_product || plan->narrow != NULL;
}

/* Copies a node of the head, in which its logits get the prefix: their own name is that of the floats. */
static void copy_node(struct wire *out, const onnx_file *head, wire_span node, const char *logits)
{
    const wire_mark mark = wire_begin(out, GRAPH_NODE);
    wire_field item;

    while (wire_next(&node, &item)) {
        if ((item.number == NODE_INPUT || item.number == NODE_OUTPUT) && wire_is(item.data, logits))
            onnx_write_name(out, item.number, PREFIX, item.data);
        else
            onnx_copy_field(out, head, ONNX_NODE, &item, 0);
    }
    wire_raw(out, node.at, node.count);
    wire_end(out, mark);
}

static void write_graph(struct wire *out, const onnx_file *head, const onnx_file *model, const struct plan *plan)
{
    const wire_mark mark = wire_begin(out, MODEL_GRAPH);
    wire_span rest = head->graph, ids;
    wire_field item;

    if (plan->lacks_embedding) {
        if (!onnx_named(head->graph, GRAPH_INPUT, VALUE_NAME, onnx_span(IDS), &ids))
            onnx_write_rows(out, GRAPH_INPUT, IDS, INLAY_INT64, plan->embeds_shape, false);
        write_part(out, model, &plan->embedding, &(struct part){ .node_count = 0 });
        write_cast(out, PREFIX, plan->embedding.output, NULL, onnx_span(EMBEDS), plan->embeds_type);
    }
    while (wire_next(&rest, &item)) {
        if (plan->narrow != NULL && item.number == GRAPH_NODE)
            copy_node(out, head, item.data, plan->narrow);
        else if (plan->narrow != NULL && item.number == GRAPH_OUTPUT &&
                 wire_is(onnx_text(item.data, VALUE_NAME, 0), plan->narrow))
            onnx_write_rows(out, GRAPH_OUTPUT, plan->narrow, INLAY_FLOAT, plan->narrow_shape, true);
        else if (!plan->lacks_embedding || item.data.at != plan->embeds.at)
            onnx_copy_field(out, head, ONNX_GRAPH, &item, 0);
    }
    if (plan->narrow != NULL)
        write_cast(out, PREFIX, onnx_span(plan->narrow), NULL, onnx_span(plan->narrow), INLAY_FLOAT);
    if (plan->lacks_product) {
        write_cast(out, NULL, plan->hidden, PREFIX, plan->product.input, plan->product.dtype);
        write_part(out, model, &plan->product, &plan->embedding);
        write_cast(out, PREFIX, plan->product.output, NULL, onnx_span("logits"), INLAY_FLOAT);
        onnx_write_rows(out, GRAPH_OUTPUT, "logits", INLAY_FLOAT, plan->hidden_shape, true);
    }
    wire_end(out, mark);
}

static void write_model(struct wire *out, const onnx_file *head, const onnx_file *model, const struct plan *plan)
{
    wire_span rest = head->bytes;
    wire_field item;

    while (wire_next(&rest, &item)) {
        if (item.number == MODEL_GRAPH)
            write_graph(out, head, model, plan);
        else
            onnx_copy_field(out, head, ONNX_MODEL, &item, 0);
    }
    if (plan->imports)
        onnx_copy_import(out, model->bytes);
}

inlay_status text_graft(const char *head_path, const char *model_path, inlay_options *options, struct wire *out_bytes,
                        inlay_diag *diag)
{
    onnx_file head = { .path = NULL }, model = { .path = NULL };
    struct plan *plan = calloc(1, sizeof *plan);
    inlay_status status = INLAY_OK;

    if (plan == NULL)
        return no_memory(diag, "for a head");
    if (!onnx_file_open(head_path, &head) || !find_gaps(&head, plan) || !onnx_file_open(model_path, &model))
        goto done;
    if (plan->lacks_embedding) {
        INLAY_TRY(find_embedding(&model, plan->embeds_width, &plan->embedding, diag));
        INLAY_TRY(check_versions(&model, &head, &plan->embedding, &plan->imports, diag));
    }
    if (plan->lacks_product) {
        INLAY_TRY(find_product(&model, &plan->product, diag));
        INLAY_TRY(check_versions(&model, &head, &plan->product, &plan->imports, diag));
    }
    INLAY_TRY(onnx_find_folders(&head, &model, options, diag));
    write_model(out_bytes, &head, &model, plan);
    if (out_bytes->failed)
        status = no_memory(diag, "for a head");
    if (status == INLAY_OK)
        status = mapped_file_check(head.watch, diag);
    if (status == INLAY_OK)
        status = mapped_file_check(model.watch, diag);
done:
    onnx_file_close(&head);
    onnx_file_close(&model);
    free(plan);
    return status;
}
