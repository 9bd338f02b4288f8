/* Operators that kernels of programs call (CreateOp, InvokeOp). For each combination of element types that an operator
 * is called with, the first call creates a session of a model with one node. */
#include "custom.h"
#include "wire.h"
#include "inlay/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PORTS = 64 };

/* The session for one combination of element types. */
struct variant {
    struct variant *next;
    OrtSession *session;
    inlay_dtype types[]; /* of inputs, then of outputs; INLAY_UNDEFINED: omitted */
};

struct OrtOp {
    char *name, *domain;
    int version;
    OrtOpAttr **attrs; /* [attr_count] */
    size_t attr_count, input_count, output_count;
    pthread_mutex_t lock;
    struct variant *variants;
};

/* An input or output of a graph: a tensor of that type and of any shape. */
static void put_port(ort_writer *graph, uint32_t field, const char *name, inlay_dtype type)
{
    ort_writer tensor = { 0 }, kind = { 0 }, port = { 0 };

    ort_put_number(&tensor, 1, type);
    ort_put_message(&kind, 1, &tensor);
    ort_put_text(&port, 1, name);
    ort_put_message(&port, 2, &kind);
    ort_put_message(graph, field, &port);
}

/* The name of an input or output; empty if it is omitted. */
static const char *port_name(char text[24], char kind, size_t index, inlay_dtype type)
{
    text[0] = '\0';
    if (type != INLAY_UNDEFINED)
        (void)snprintf(text, 24, "%c%zu", kind, index);
    return text;
}

static void put_model(ort_writer *file, const OrtOp *op, const inlay_dtype *types)
{
    ort_writer node = { 0 }, graph = { 0 }, import = { 0 };
    char name[24];

    for (size_t i = 0; i < op->input_count; i++)
        ort_put_text(&node, NODE_INPUT, port_name(name, 'i', i, types[i]));
    for (size_t i = 0; i < op->output_count; i++)
        ort_put_text(&node, NODE_OUTPUT, port_name(name, 'o', i, types[op->input_count + i]));
    ort_put_text(&node, NODE_OPERATOR, op->name);
    for (size_t i = 0; i < op->attr_count; i++)
        ort_put_attr(&node, op->attrs[i]);
    ort_put_text(&node, NODE_DOMAIN, op->domain);
    ort_put_message(&graph, GRAPH_NODE, &node);
    ort_put_text(&graph, GRAPH_NAME, op->name);
    for (size_t i = 0; i < op->input_count + op->output_count; i++) {
        bool in = i < op->input_count;

        if (types[i] != INLAY_UNDEFINED)
            put_port(&graph, in ? GRAPH_INPUT : GRAPH_OUTPUT,
                     port_name(name, in ? 'i' : 'o', in ? i : i - op->input_count, types[i]), types[i]);
    }
    ort_put_number(file, MODEL_IR_VERSION, 10);
    ort_put_message(file, MODEL_GRAPH, &graph);
    ort_put_text(&import, OPSET_DOMAIN, op->domain);
    ort_put_number(&import, OPSET_VERSION, op->version);
    ort_put_message(file, MODEL_OPSET, &import);
}

void ort_ReleaseOp(OrtOp *op)
{
    if (op == NULL)
        return;
    while (op->variants != NULL) {
        struct variant *variant = op->variants;

        op->variants = variant->next;
        ort_ReleaseSession(variant->session);
        free(variant);
    }
    for (size_t i = 0; op->attrs != NULL && i < op->attr_count; i++)
        ort_ReleaseOpAttr(op->attrs[i]);
    (void)pthread_mutex_destroy(&op->lock);
    free(op->attrs);
    free(op->domain);
    free(op->name);
    free(op);
}

static OrtStatus *fill_op(OrtOp *op, const char *name, const char *domain, const OrtOpAttr *const *attrs, size_t count)
{
    op->name = strdup(name);
    op->domain = strdup(domain);
    op->attrs = calloc(count + 1, sizeof(OrtOpAttr *));
    if (op->name == NULL || op->domain == NULL || op->attrs == NULL)
        return ort_no_memory();
    for (; op->attr_count < count; op->attr_count++) {
        ORT_NEED(attrs[op->attr_count]);
        ORT_TRY(ort_attr_clone(attrs[op->attr_count], &op->attrs[op->attr_count]));
    }
    return NULL;
}

/* The type constraints of the program are not used: the types of the values given to InvokeOp decide. */
OrtStatus *ort_CreateOp(const OrtKernelInfo *info, const char *op_name, const char *domain, int version,
                        const char **type_constraint_names, const ONNXTensorElementDataType *type_constraint_values,
                        int type_constraint_count, const OrtOpAttr *const *attr_values, int attr_count, int input_count,
                        int output_count, OrtOp **ort_op)
{
    OrtStatus *failed;
    OrtOp *op;

    (void)type_constraint_names, (void)type_constraint_values, (void)type_constraint_count;
    ORT_NEED(info);
    ORT_NEED(op_name);
    ORT_NEED(ort_op);
    *ort_op = NULL;
    if (attr_count > 0)
        ORT_NEED(attr_values);
    if (attr_count < 0 || input_count < 0 || output_count < 1 || input_count > MOST_PORTS ||
        output_count > MOST_PORTS - input_count)
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "operator %s: %d attributes, %d inputs, %d outputs; at least one output is "
                        "required, and at most %d inputs and outputs are allowed",
                        op_name, attr_count, input_count, output_count, MOST_PORTS);
    op = calloc(1, sizeof *op);
    if (op == NULL)
        return ort_no_memory();
    (void)pthread_mutex_init(&op->lock, NULL);
    op->version = version;
    op->input_count = (size_t)input_count;
    op->output_count = (size_t)output_count;
    failed = fill_op(op, op_name, domain != NULL ? domain : "", attr_values, (size_t)attr_count);
    if (failed != NULL)
        ort_ReleaseOp(op);
    else
        *ort_op = op;
    return failed;
}

static OrtStatus *type_of(const OrtOp *op, const OrtValue *value, const char *what, size_t index, inlay_dtype *out)
{
    *out = INLAY_UNDEFINED;
    if (value == NULL)
        return NULL;
    if (value->type != ONNX_TYPE_TENSOR || value->value == NULL)
        return ort_fail(ORT_NOT_IMPLEMENTED, "operator %s, %s %zu: operators called by kernels take tensors only",
                        op->name, what, index);
    *out = inlay_value_dtype(value->value);
    return NULL;
}

/* Returns the session for these types and keeps it. Requires the lock. */
static OrtStatus *find_variant(OrtOp *op, const inlay_dtype *types, OrtSession **out)
{
    size_t bytes = (op->input_count + op->output_count) * sizeof *types;
    OrtStatus *failed;
    ort_writer file = { 0 };
    struct variant *variant;

    INLAY_CHECK(op->input_count + op->output_count <= MOST_PORTS);
    for (variant = op->variants; variant != NULL; variant = variant->next) {
        if (memcmp(variant->types, types, bytes) == 0) {
            *out = variant->session;
            return NULL;
        }
    }
    variant = calloc(1, sizeof *variant + bytes);
    if (variant == NULL)
        return ort_no_memory();
    memcpy(variant->types, types, bytes);
    put_model(&file, op, types);
    if (file.failed) {
        free(file.data);
        failed = ort_no_memory();
    } else {
        failed = ort_session_from_bytes(NULL, file.data, file.count, &variant->session);
    }
    if (failed != NULL) {
        free(variant);
        return failed;
    }
    variant->next = op->variants;
    op->variants = variant;
    *out = variant->session;
    return NULL;
}

OrtStatus *ort_InvokeOp(const OrtKernelContext *context, const OrtOp *ort_op, const OrtValue *const *input_values,
                        int input_count, OrtValue *const *output_values, int output_count)
{
    OrtOp *op = (OrtOp *)(uintptr_t)ort_op; /* calls add variants to it */
    inlay_dtype types[MOST_PORTS];
    ort_feed feeds[MOST_PORTS];
    OrtValue *fetches[MOST_PORTS];
    uint32_t wanted[MOST_PORTS], fed = 0, fetched = 0;
    OrtSession *session = NULL;
    OrtStatus *failed;

    ORT_NEED(context);
    ORT_NEED(ort_op);
    if (input_count < 0 || output_count < 0 || (size_t)input_count != op->input_count ||
        (size_t)output_count != op->output_count)
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "operator %s was created with %zu inputs and %zu outputs, but called with "
                        "%d and %d",
                        op->name, op->input_count, op->output_count, input_count, output_count);
    if (input_count > 0)
        ORT_NEED(input_values);
    ORT_NEED(output_values);
    for (size_t i = 0; i < op->input_count; i++) {
        ORT_TRY(type_of(op, input_values[i], "input", i, &types[i]));
        if (input_values[i] != NULL) {
            feeds[fed] = (ort_feed){ .index = fed, .value = input_values[i] };
            fed++;
        }
    }
    for (size_t i = 0; i < op->output_count; i++) {
        ORT_TRY(type_of(op, output_values[i], "output", i, &types[op->input_count + i]));
        if (output_values[i] != NULL) {
            wanted[fetched] = fetched;
            fetches[fetched++] = output_values[i];
        }
    }
    if (fetched == 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "operator %s is called without any output", op->name);
    (void)pthread_mutex_lock(&op->lock);
    failed = find_variant(op, types, &session);
    (void)pthread_mutex_unlock(&op->lock);
    return failed != NULL ? failed : ort_run(session, NULL, feeds, fed, wanted, fetches, fetched);
}
