#include "texts/draft/graft.h"
#include "base/memory.h"
#include "texts/draft/onnx_file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Further fields of the messages of onnx.proto. */
enum { VALUE_NAME = 1, VALUE_TYPE = 2 };
enum { FUNCTION_NODE = 7, FUNCTION_ATTRIBUTE = 11 };
enum { ATTRIBUTE_TENSOR = 5, ATTRIBUTE_GRAPH = 6, ATTRIBUTE_TENSORS = 10, ATTRIBUTE_GRAPHS = 11 };
enum { ATTRIBUTE_SPARSE = 22, ATTRIBUTE_SPARSES = 23, SPARSE_VALUES = 1, SPARSE_INDICES = 2 };

enum {
    MOST_NODES = 32,      /* of the model, around the head */
    MOST_DEPTH = 8,       /* nodes between a weight and its reader */
    MOST_MESSAGES = 1000, /* nested ones; the session refuses models with more */
    LEAST_STORED = 256    /* smaller tensors are copied */
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

static wire_span span_of(const char *text)
{
    return (wire_span){ (const uint8_t *)text, strlen(text) };
}

/* For messages. */
#define SHOWN(text) (int)((text).count < 80 ? (text).count : 80), (const char *)(text).at

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

static bool is_one_of(wire_span node, const char *const *ops, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (onnx_is_op(node, ops[i]))
            return true;
    return false;
}
#define IS_ONE_OF(node, ops) is_one_of(node, ops, sizeof(ops) / sizeof *(ops))

/* What messages call a node: its name, or that of its output. */
static wire_span label_of(wire_span node)
{
    const wire_span name = onnx_text(node, NODE_NAME, 0);

    return name.count > 0 ? name : onnx_text(node, NODE_OUTPUT, 0);
}

/* The version of a domain that a model imports; 0: none. */
static uint64_t find_opset(wire_span model, const char *domain)
{
    wire_field item, version;

    while (wire_next(&model, &item))
        if (item.number == MODEL_OPSET && onnx_is_domain(onnx_text(item.data, 1, 0), domain))
            return onnx_field(item.data, 2, 0, &version) ? version.value : 0;
    return 0;
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
    if (depth == MOST_DEPTH || !find_producer(model->graph, value, &found) || !IS_ONE_OF(found, ops))
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

    *part = (struct part){ .input = span_of(IDS) };
    if (!IS_ONE_OF(node, ops))
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
    wire_span path[MOST_DEPTH], value = span_of("logits"), node;
    uint32_t count = 0;

    *part = (struct part){ .output = value };
    while (count < MOST_DEPTH && find_producer(model->graph, value, &node)) {
        const bool is_product = IS_ONE_OF(node, products);
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
        if (others != 1 || (is_product ? other != 0 : !IS_ONE_OF(node, passed)))
            return inlay_fail(
                diag, INLAY_INVALID_ARGUMENT,
                "it has no output 'logits', and those of the model come from node '%.*s' (%.*s), which is "
                "not understood; export the head with the product that makes them",
                SHOWN(label_of(node)), SHOWN(onnx_text(node, NODE_OP, 0)));
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
    static const char *const stable[] = { "Gather", "MatMul", "Gemm",     "Cast",      "Mul",     "Div",
                                          "Add",    "Tanh",   "Identity", "Transpose", "Constant" };
    enum { STABLE = 13 };

    for (uint32_t i = 0; i < part->node_count; i++) {
        const char *domain = onnx_is_domain(onnx_text(part->nodes[i], NODE_DOMAIN, 0), "") ? "" : "com.microsoft";
        const uint64_t theirs = find_opset(model->bytes, domain), ours = find_opset(head->bytes, domain);

        *out_imports |= ours == 0;
        if (ours != 0 && ours != theirs && (ours < STABLE || theirs < STABLE || !IS_ONE_OF(part->nodes[i], stable)))
            return inlay_fail(
                diag, INLAY_INVALID_ARGUMENT,
                "it has version %llu of %s, and the model, whose node '%.*s' it needs, version %llu; export "
                "both with the same opset",
                (unsigned long long)ours, domain[0] == '\0' ? "ai.onnx" : domain, SHOWN(label_of(part->nodes[i])),
                (unsigned long long)theirs);
    }
    return INLAY_OK;
}

/* A text field: the prefix, unless it is NULL or the name is empty, and the name. */
static void write_name(struct wire *out, uint32_t number, const char *prefix, wire_span name)
{
    const wire_mark mark = wire_begin(out, number);

    if (prefix != NULL && name.count > 0)
        wire_raw(out, prefix, strlen(prefix));
    if (name.count > 0)
        wire_raw(out, name.at, name.count);
    wire_end(out, mark);
}

static void write_entry(struct wire *out, const char *key, const char *folder, wire_span value)
{
    const wire_mark mark = wire_begin(out, TENSOR_EXTERNAL);

    wire_text(out, 1, key);
    write_name(out, 2, folder, value);
    wire_end(out, mark);
}

static void write_number(struct wire *out, const char *key, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    write_entry(out, key, NULL, span_of(text));
}

/* Writes a tensor. Its elements stay in the file, or in the file that it names. */
static void write_tensor(struct wire *out, uint32_t number, const onnx_file *file, wire_span tensor, const char *prefix)
{
    const wire_mark mark = wire_begin(out, number);
    wire_field item;

    while (wire_next(&tensor, &item)) {
        if (item.number == TENSOR_NAME) {
            write_name(out, TENSOR_NAME, prefix, item.data);
        } else if (item.number == TENSOR_RAW && item.data.count >= LEAST_STORED) {
            write_entry(out, "location", file->folder, span_of(file->name));
            write_number(out, "offset", (uint64_t)(item.data.at - file->bytes.at));
            write_number(out, "length", item.data.count);
            wire_int(out, TENSOR_LOCATION, 1);
        } else if (item.number == TENSOR_EXTERNAL && wire_is(onnx_text(item.data, 1, 0), "location")) {
            write_entry(out, "location", file->folder, onnx_text(item.data, 2, 0));
        } else {
            wire_raw(out, item.whole.at, item.whole.count);
        }
    }
    wire_raw(out, tensor.at, tensor.count); /* damaged, which its session reports */
    wire_end(out, mark);
}

/* The messages that contain tensors, also in bodies of If and Loop, in constants and in functions. */
enum message { NO_MESSAGE, MODEL, GRAPH, NODE, ATTRIBUTE, FUNCTION, SPARSE, TENSOR };
static enum message message_of(enum message in, uint32_t number)
{
    static const struct {
        uint8_t in, number, is;
    } fields[] = { { MODEL, MODEL_FUNCTION, FUNCTION },      { GRAPH, GRAPH_NODE, NODE },
                   { GRAPH, GRAPH_INITIALIZER, TENSOR },     { GRAPH, GRAPH_SPARSE, SPARSE },
                   { FUNCTION, FUNCTION_NODE, NODE },        { FUNCTION, FUNCTION_ATTRIBUTE, ATTRIBUTE },
                   { NODE, NODE_ATTRIBUTE, ATTRIBUTE },      { ATTRIBUTE, ATTRIBUTE_TENSOR, TENSOR },
                   { ATTRIBUTE, ATTRIBUTE_GRAPH, GRAPH },    { ATTRIBUTE, ATTRIBUTE_TENSORS, TENSOR },
                   { ATTRIBUTE, ATTRIBUTE_GRAPHS, GRAPH },   { ATTRIBUTE, ATTRIBUTE_SPARSE, SPARSE },
                   { ATTRIBUTE, ATTRIBUTE_SPARSES, SPARSE }, { SPARSE, SPARSE_VALUES, TENSOR },
                   { SPARSE, SPARSE_INDICES, TENSOR } };

    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].in == in && fields[i].number == number)
            return fields[i].is;
    return NO_MESSAGE;
}

/* Copies a field of a message, with all tensors in it as write_tensor() writes them. */
static void copy_field(struct wire *out, const onnx_file *file, enum message in, const wire_field *field,
                       uint32_t depth)
{
    const enum message is = field->type == WIRE_BYTES ? message_of(in, field->number) : NO_MESSAGE;
    wire_span rest = field->data;
    wire_field item;
    wire_mark mark;

    if (is == TENSOR) {
        write_tensor(out, field->number, file, rest, NULL);
    } else if (is == NO_MESSAGE || depth == MOST_MESSAGES) {
        wire_raw(out, field->whole.at, field->whole.count);
    } else {
        mark = wire_begin(out, field->number);
        while (wire_next(&rest, &item))
            copy_field(out, file, is, &item, depth + 1);
        wire_raw(out, rest.at, rest.count);
        wire_end(out, mark);
    }
}

static void write_node(struct wire *out, const onnx_file *model, wire_span node)
{
    const wire_mark mark = wire_begin(out, GRAPH_NODE);
    wire_field item;

    while (wire_next(&node, &item)) {
        if (item.number == NODE_INPUT && wire_is(item.data, IDS))
            wire_raw(out, item.whole.at, item.whole.count);
        else if (item.number == NODE_INPUT || item.number == NODE_OUTPUT || item.number == NODE_NAME)
            write_name(out, item.number, PREFIX, item.data);
        else
            copy_field(out, model, NODE, &item, 0);
    }
    wire_end(out, mark);
}

static void write_cast(struct wire *out, const char *from_prefix, wire_span from, const char *to_prefix, wire_span to,
                       uint64_t dtype)
{
    const wire_mark mark = wire_begin(out, GRAPH_NODE);
    wire_mark attribute;

    write_name(out, NODE_INPUT, from_prefix, from);
    write_name(out, NODE_OUTPUT, to_prefix, to);
    wire_text(out, NODE_OP, "Cast");
    attribute = wire_begin(out, NODE_ATTRIBUTE);
    wire_text(out, 1, "to");
    wire_int(out, 3, (int64_t)dtype);
    wire_int(out, 20, 2); /* INT */
    wire_end(out, attribute);
    wire_end(out, mark);
}

/* The element type of an input or output of floats [a, b, width]; *out_width: 0 if it is not fixed. 0: another form. */
static uint64_t float_rows(wire_span value, wire_span *out_shape, uint64_t *out_width)
{
    const wire_span tensor = onnx_text(onnx_text(value, VALUE_TYPE, 0), 1, 0);
    wire_field type, dim, width;

    *out_shape = onnx_text(tensor, 2, 0);
    *out_width = 0;
    if (!onnx_field(tensor, 1, 0, &type) || !onnx_field(*out_shape, 1, 2, &dim) || onnx_field(*out_shape, 1, 3, &width))
        return 0;
    (void)onnx_field(dim.data, 1, 0, &width);
    *out_width = width.value;
    (void)onnx_field(*out_shape, 1, 2, &dim);
    return type.value == INLAY_FLOAT || type.value == INLAY_FLOAT16 || type.value == INLAY_BFLOAT16 ? type.value : 0;
}

/* An input or output [a, b], or [a, b, any], with the first sizes of the shape. */
static void write_value(struct wire *out, uint32_t kind, const char *name, uint64_t dtype, wire_span shape,
                        bool is_wide)
{
    const wire_mark value = wire_begin(out, kind);
    wire_mark type, tensor, dims;
    wire_field dim;

    wire_text(out, VALUE_NAME, name);
    type = wire_begin(out, VALUE_TYPE);
    tensor = wire_begin(out, 1);
    wire_int(out, 1, (int64_t)dtype);
    dims = wire_begin(out, 2);
    for (uint32_t i = 0; i < 2 && onnx_field(shape, 1, i, &dim); i++)
        wire_raw(out, dim.whole.at, dim.whole.count);
    if (is_wide)
        wire_end(out, wire_begin(out, 1));
    wire_end(out, dims);
    wire_end(out, tensor);
    wire_end(out, type);
    wire_end(out, value);
}

/* Writes a part, without what `written` has, too: a table may be both the embedding and the weight of the product. */
static void write_part(struct wire *out, const onnx_file *model, const struct part *part, const struct part *written)
{
    for (uint32_t i = 0; i < part->node_count; i++)
        if (!has(written->nodes, written->node_count, part->nodes[i]))
            write_node(out, model, part->nodes[i]);
    for (uint32_t i = 0; i < part->weight_count; i++)
        if (!has(written->weights, written->weight_count, part->weights[i]))
            write_tensor(out, GRAPH_INITIALIZER, model, part->weights[i], PREFIX);
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
            plan->embeds_type = float_rows(item.data, &plan->embeds_shape, &plan->embeds_width);
            plan->lacks_embedding = plan->embeds_type != 0;
        } else if (item.number == GRAPH_OUTPUT && (wire_is(name, "logits") || wire_is(name, "draft_logits"))) {
            const uint64_t type = float_rows(item.data, &shape, &width);

            has_logits = true;
            if (type != 0 && type != INLAY_FLOAT) {
                plan->narrow = wire_is(name, "logits") ? "logits" : "draft_logits";
                plan->narrow_shape = shape;
            }
        } else if (item.number == GRAPH_OUTPUT && float_rows(item.data, &shape, &width) != 0) {
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
            write_name(out, item.number, PREFIX, item.data);
        else
            copy_field(out, head, NODE, &item, 0);
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
        if (!onnx_named(head->graph, GRAPH_INPUT, VALUE_NAME, span_of(IDS), &ids))
            write_value(out, GRAPH_INPUT, IDS, INLAY_INT64, plan->embeds_shape, false);
        write_part(out, model, &plan->embedding, &(struct part){ .node_count = 0 });
        write_cast(out, PREFIX, plan->embedding.output, NULL, span_of(EMBEDS), plan->embeds_type);
    }
    while (wire_next(&rest, &item)) {
        if (plan->narrow != NULL && item.number == GRAPH_NODE)
            copy_node(out, head, item.data, plan->narrow);
        else if (plan->narrow != NULL && item.number == GRAPH_OUTPUT &&
                 wire_is(onnx_text(item.data, VALUE_NAME, 0), plan->narrow))
            write_value(out, GRAPH_OUTPUT, plan->narrow, INLAY_FLOAT, plan->narrow_shape, true);
        else if (!plan->lacks_embedding || item.data.at != plan->embeds.at)
            copy_field(out, head, GRAPH, &item, 0);
    }
    if (plan->narrow != NULL)
        write_cast(out, PREFIX, span_of(plan->narrow), NULL, span_of(plan->narrow), INLAY_FLOAT);
    if (plan->lacks_product) {
        write_cast(out, NULL, plan->hidden, PREFIX, plan->product.input, plan->product.dtype);
        write_part(out, model, &plan->product, &plan->embedding);
        write_cast(out, PREFIX, plan->product.output, NULL, span_of("logits"), INLAY_FLOAT);
        write_value(out, GRAPH_OUTPUT, "logits", INLAY_FLOAT, plan->hidden_shape, true);
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
            copy_field(out, head, MODEL, &item, 0);
    }
    if (plan->imports) {
        const wire_mark mark = wire_begin(out, MODEL_OPSET);

        wire_text(out, 1, "com.microsoft");
        wire_int(out, 2, (int64_t)find_opset(model->bytes, "com.microsoft"));
        wire_end(out, mark);
    }
}

/* Sets `folder` of both files, and the option to the folder that both are below. */
static inlay_status find_folders(onnx_file *head, onnx_file *model, inlay_options *options, inlay_diag *diag)
{
    onnx_file *const files[] = { head, model };
    char common[PATH_MAX];
    size_t shared = 0;

    for (int i = 0; i < 2; i++) {
        char path[PATH_MAX], *folder = files[i]->folder;

        (void)snprintf(path, sizeof path, "%.*s.", (int)(files[i]->name - files[i]->path), files[i]->path);
        if (realpath(path, folder) == NULL || strlen(folder) + 2 > PATH_MAX)
            return inlay_fail(diag, INLAY_IO_ERROR, "the folder of %.200s cannot be opened", files[i]->path);
        if (strcmp(folder, "/") != 0)
            (void)strcat(folder, "/");
    }
    for (size_t i = 0; head->folder[i] != '\0' && head->folder[i] == model->folder[i]; i++)
        shared = head->folder[i] == '/' ? i + 1 : shared;
    (void)snprintf(common, sizeof common, "%.*s", (int)shared, head->folder);
    for (int i = 0; i < 2; i++)
        memmove(files[i]->folder, files[i]->folder + shared, strlen(files[i]->folder + shared) + 1);
    return inlay_options_set(options, "external_dir", common, diag);
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
    INLAY_TRY(find_folders(&head, &model, options, diag));
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
