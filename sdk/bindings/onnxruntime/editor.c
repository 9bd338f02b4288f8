/* Models that programs build or extend (OrtModelEditorApi). A graph keeps what the program adds to it. Creating a
 * session writes the graph as an ONNX file in memory, or adds it to the file of a model that the program extends. */
#include "custom.h"
#include "editor.h"
#include "wire.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

/* ONNX Runtime demands that smaller initializers be copied, so that shape inference can read them. */
enum { LEAST_EXTERNAL_BYTES = 128 };

OrtStatus *ort_CreateValueInfo(const char *name, const OrtTypeInfo *type_info, OrtValueInfo **value_info)
{
    OrtValueInfo *info;

    ORT_NEED(value_info);
    *value_info = NULL;
    if (name == NULL || name[0] == '\0')
        return ort_fail(ORT_INVALID_ARGUMENT, "name cannot be null or empty string");
    ORT_NEED(type_info);
    info = calloc(1, sizeof *info);
    if (info == NULL || (info->name = strdup(name)) == NULL || (info->type = ort_type_copy(type_info)) == NULL) {
        ort_ReleaseValueInfo(info);
        return ort_no_memory();
    }
    *value_info = info;
    return NULL;
}

void ort_ReleaseValueInfo(OrtValueInfo *info)
{
    if (info == NULL)
        return;
    ort_ReleaseTypeInfo(info->type);
    free(info->name);
    free(info);
}

ORT_GETTER(ort_GetValueInfoName, const OrtValueInfo *, value_info, const char *, name, value_info->name)
ORT_GETTER(ort_GetValueInfoTypeInfo, const OrtValueInfo *, value_info, const OrtTypeInfo *, type_info, value_info->type)

void ort_ReleaseNode(OrtNode *node)
{
    if (node == NULL)
        return;
    for (size_t i = 0; node->inputs != NULL && i < node->input_count; i++)
        free(node->inputs[i]);
    for (size_t i = 0; node->outputs != NULL && i < node->output_count; i++)
        free(node->outputs[i]);
    for (size_t i = 0; node->attrs != NULL && i < node->attr_count; i++)
        ort_ReleaseOpAttr(node->attrs[i]);
    free(node->inputs);
    free(node->outputs);
    free(node->attrs);
    free(node->op);
    free(node->domain);
    free(node->name);
    free(node);
}

/* Copies of names; an empty name is an omitted input or output. NULL: no memory, or a NULL name (*missing is set). */
static char **copy_names(const char *const *names, size_t count, bool *missing)
{
    char **copies = calloc(count + 1, sizeof *copies);

    for (size_t i = 0; copies != NULL && i < count; i++) {
        copies[i] = names[i] != NULL ? strdup(names[i]) : NULL;
        *missing |= names[i] == NULL;
        if (copies[i] == NULL) {
            while (i > 0)
                free(copies[--i]);
            free(copies);
            return NULL;
        }
    }
    return copies;
}

static OrtStatus *fill_node(OrtNode *node, const char *const *inputs, const char *const *outputs, OrtOpAttr **attrs,
                            size_t attr_count)
{
    bool missing = false;

    node->inputs = copy_names(inputs, node->input_count, &missing);
    node->outputs = copy_names(outputs, node->output_count, &missing);
    if (missing)
        return ort_fail(ORT_INVALID_ARGUMENT, "CreateNode: a name of an input or output of %s is NULL; \"\" omits it",
                        node->op);
    node->attrs = calloc(attr_count + 1, sizeof *node->attrs);
    if (node->inputs == NULL || node->outputs == NULL || node->attrs == NULL)
        return ort_no_memory();
    for (size_t i = 0; i < attr_count; i++)
        ORT_NEED(attrs[i]);
    if (attr_count > 0) /* last, because the node owns them from now on */
        memcpy(node->attrs, attrs, attr_count * sizeof(OrtOpAttr *));
    node->attr_count = attr_count;
    return NULL;
}

/* As ONNX Runtime's: on success the node owns the attributes. */
OrtStatus *ort_CreateNode(const char *operator_name, const char *domain_name, const char *node_name,
                          const char *const *input_names, size_t input_names_len, const char *const *output_names,
                          size_t output_names_len, OrtOpAttr **attributes, size_t attribs_len, OrtNode **node)
{
    OrtStatus *failed = NULL;
    OrtNode *made;

    ORT_NEED(node);
    *node = NULL;
    if (operator_name == NULL || operator_name[0] == '\0')
        return ort_fail(ORT_INVALID_ARGUMENT, "operator_name cannot be null or empty string");
    if (input_names_len > 0)
        ORT_NEED(input_names);
    if (output_names_len > 0)
        ORT_NEED(output_names);
    if (attribs_len > 0)
        ORT_NEED(attributes);
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return ort_no_memory();
    made->input_count = input_names_len;
    made->output_count = output_names_len;
    if (!ort_set_text(&made->op, operator_name) || !ort_set_text(&made->domain, domain_name ? domain_name : "") ||
        !ort_set_text(&made->name, node_name ? node_name : ""))
        failed = ort_no_memory();
    if (failed == NULL)
        failed = fill_node(made, input_names, output_names, attributes, attribs_len);
    if (failed != NULL)
        ort_ReleaseNode(made);
    else
        *node = made;
    return failed;
}

OrtStatus *ort_CreateGraph(OrtGraph **graph)
{
    ORT_NEED(graph);
    *graph = calloc(1, sizeof **graph);
    return *graph != NULL ? NULL : ort_no_memory();
}

static void release_values(OrtValueInfo **values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ort_ReleaseValueInfo(values[i]);
    free(values);
}

void ort_ReleaseGraph(OrtGraph *graph)
{
    if (graph == NULL)
        return;
    release_values(graph->inputs, graph->input_count);
    release_values(graph->outputs, graph->output_count);
    for (size_t i = 0; i < graph->node_count; i++)
        ort_ReleaseNode(graph->nodes[i]);
    for (size_t i = 0; i < graph->initializer_count; i++) {
        free(graph->initializers[i].name);
        ort_ReleaseValue(graph->initializers[i].value);
    }
    free(graph->nodes);
    free(graph->initializers);
    free(graph);
}

/* Replaces the inputs or outputs. On success the graph owns the values, and the caller's pointers are NULL. */
static OrtStatus *set_values(OrtValueInfo ***list, size_t *list_count, OrtValueInfo **values, size_t count,
                             const char *role)
{
    OrtValueInfo **taken;

    if (count > 0)
        ORT_NEED(values);
    for (size_t i = 0; i < count; i++) {
        if (values[i] == NULL)
            return ort_fail(ORT_INVALID_ARGUMENT, "%ss cannot contain null entries", role);
        for (size_t k = 0; k < i; k++)
            if (values[k] == values[i] || strcmp(values[k]->name, values[i]->name) == 0)
                return ort_fail(ORT_INVALID_ARGUMENT, "%s %s is given twice", role, values[i]->name);
    }
    taken = calloc(count + 1, sizeof *taken);
    if (taken == NULL)
        return ort_no_memory();
    for (size_t i = 0; i < count; i++) {
        taken[i] = values[i];
        values[i] = NULL;
    }
    release_values(*list, *list_count);
    *list = taken;
    *list_count = count;
    return NULL;
}

OrtStatus *ort_SetGraphInputs(OrtGraph *graph, OrtValueInfo **inputs, size_t inputs_len)
{
    ORT_NEED(graph);
    return set_values(&graph->inputs, &graph->input_count, inputs, inputs_len, "input");
}

OrtStatus *ort_SetGraphOutputs(OrtGraph *graph, OrtValueInfo **outputs, size_t outputs_len)
{
    ORT_NEED(graph);
    return set_values(&graph->outputs, &graph->output_count, outputs, outputs_len, "output");
}

OrtStatus *ort_AddInitializerToGraph(OrtGraph *graph, const char *name, OrtValue *tensor, bool data_is_external)
{
    char *copy;

    ORT_NEED(graph);
    ORT_NEED(tensor);
    if (name == NULL || name[0] == '\0')
        return ort_fail(ORT_INVALID_ARGUMENT, "name cannot be null or empty string");
    if (tensor->type != ONNX_TYPE_TENSOR || tensor->value == NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "initializer %s is not a tensor", name);
    if (inlay_value_data(tensor->value) == NULL && inlay_value_count(tensor->value) > 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "initializer %s is not in CPU memory", name);
    if (data_is_external && inlay_value_bytes(tensor->value) < LEAST_EXTERNAL_BYTES)
        return ort_fail(ORT_INVALID_ARGUMENT,
                        "data_is_external=true requires the tensor to be larger than %d bytes (got %llu bytes). For "
                        "smaller tensors, copy the data into a tensor of CreateTensorAsOrtValue and pass "
                        "data_is_external=false.",
                        LEAST_EXTERNAL_BYTES - 1, (unsigned long long)inlay_value_bytes(tensor->value));
    for (size_t i = 0; i < graph->initializer_count; i++)
        if (graph->initializers[i].value == tensor || strcmp(graph->initializers[i].name, name) == 0)
            return ort_fail(ORT_INVALID_ARGUMENT, "initializer %s is in the graph already", name);
    copy = strdup(name);
    if (copy == NULL || !ORT_GROW(graph->initializers, graph->initializer_count)) {
        free(copy);
        return ort_no_memory();
    }
    graph->initializers[graph->initializer_count++] = (struct initializer){ .name = copy, .value = tensor };
    return NULL;
}

OrtStatus *ort_AddNodeToGraph(OrtGraph *graph, OrtNode *node)
{
    ORT_NEED(graph);
    ORT_NEED(node);
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i] == node)
            return ort_fail(ORT_INVALID_ARGUMENT, "the node %s is in the graph already", node->name);
    if (!ORT_GROW(graph->nodes, graph->node_count))
        return ort_no_memory();
    node->id = graph->node_count;
    graph->nodes[graph->node_count++] = node;
    return NULL;
}

void ort_ReleaseModel(OrtModel *model)
{
    if (model == NULL)
        return;
    for (size_t i = 0; model->domains != NULL && i < model->opset_count; i++)
        free(model->domains[i]);
    free(model->domains);
    free(model->versions);
    ort_ReleaseGraph(model->graph);
    free(model);
}

OrtStatus *ort_CreateModel(const char *const *domain_names, const int *opset_versions, size_t opset_entries_len,
                           OrtModel **model)
{
    bool missing = false;
    OrtModel *made;

    ORT_NEED(model);
    *model = NULL;
    if (opset_entries_len > 0) {
        ORT_NEED(domain_names);
        ORT_NEED(opset_versions);
    }
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return ort_no_memory();
    made->domains = copy_names(domain_names, opset_entries_len, &missing);
    made->versions = calloc(opset_entries_len + 1, sizeof *made->versions);
    if (made->domains == NULL || made->versions == NULL) {
        ort_ReleaseModel(made);
        return missing ? ort_fail(ORT_INVALID_ARGUMENT, "CreateModel: a domain is NULL") : ort_no_memory();
    }
    if (opset_entries_len > 0)
        memcpy(made->versions, opset_versions, opset_entries_len * sizeof *opset_versions);
    made->opset_count = opset_entries_len;
    *model = made;
    return NULL;
}

OrtStatus *ort_AddGraphToModel(OrtModel *model, OrtGraph *graph)
{
    ORT_NEED(model);
    ORT_NEED(graph);
    if (model->graph != NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "the model has a graph already");
    model->graph = graph;
    return NULL;
}

static void put_values(ort_writer *graph, uint32_t field, OrtValueInfo *const *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ort_writer value = { 0 };

        ort_put_text(&value, 1, values[i]->name);
        ort_put_type(&value, 2, values[i]->type);
        ort_put_message(graph, field, &value);
    }
}

static void put_node(ort_writer *graph, const OrtNode *from)
{
    ort_writer node = { 0 };

    for (size_t i = 0; i < from->input_count; i++)
        ort_put_text(&node, NODE_INPUT, from->inputs[i]);
    for (size_t i = 0; i < from->output_count; i++)
        ort_put_text(&node, NODE_OUTPUT, from->outputs[i]);
    ort_put_text(&node, NODE_NAME, from->name);
    ort_put_text(&node, NODE_OPERATOR, from->op);
    ort_put_text(&node, NODE_DOMAIN, from->domain);
    for (size_t i = 0; i < from->attr_count; i++)
        ort_put_attr(&node, from->attrs[i]);
    ort_put_message(graph, GRAPH_NODE, &node);
}

static void put_graph(ort_writer *graph, const OrtGraph *from)
{
    for (size_t i = 0; i < from->node_count; i++)
        put_node(graph, from->nodes[i]);
    for (size_t i = 0; i < from->initializer_count; i++)
        ort_put_tensor(graph, GRAPH_INITIALIZER, from->initializers[i].name, from->initializers[i].value);
    put_values(graph, GRAPH_INPUT, from->inputs, from->input_count);
    put_values(graph, GRAPH_OUTPUT, from->outputs, from->output_count);
}

static void put_opset(ort_writer *file, const char *domain, int version)
{
    ort_writer import = { 0 };

    ort_put_text(&import, OPSET_DOMAIN, domain);
    ort_put_number(&import, OPSET_VERSION, version);
    ort_put_message(file, MODEL_OPSET, &import);
}

/* The result of a writer, which is freed on failure. */
static OrtStatus *finish(ort_writer *writer, void **out_data, size_t *out_bytes)
{
    if (writer->failed) {
        free(writer->data);
        return ort_no_memory();
    }
    *out_data = writer->data;
    *out_bytes = writer->count;
    return NULL;
}

OrtStatus *ort_model_write(const OrtModel *model, void **out_data, size_t *out_bytes)
{
    ort_writer file = { 0 }, graph = { 0 };

    if (model->graph == NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "the model has no graph: call AddGraphToModel");
    if (model->graph->output_count == 0)
        return ort_fail(ORT_INVALID_ARGUMENT, "the graph has no outputs: call SetGraphOutputs");
    ort_put_text(&graph, GRAPH_NAME, "OrtModel");
    put_graph(&graph, model->graph);
    ort_put_number(&file, MODEL_IR_VERSION, BUILT_IR_VERSION);
    ort_put_message(&file, MODEL_GRAPH, &graph);
    for (size_t i = 0; i < model->opset_count; i++)
        put_opset(&file, model->domains[i], model->versions[i]);
    return finish(&file, out_data, out_bytes);
}

/* Extending a model.
 *
 * A session for editing keeps the file's bytes. Each model that is applied replaces them by an extended copy. */

/* "ai.onnx" is another name of the domain "". */
static bool same_domain(wire_span name, const char *domain)
{
    const bool is_onnx = domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;

    return is_onnx ? name.count == 0 || wire_is(name, "ai.onnx") : wire_is(name, domain);
}

/* The version in an OperatorSetIdProto of that domain; 0: of another one. */
static int64_t opset_version(wire_span import, const char *domain, bool *bad)
{
    wire_span name = { NULL, 0 };
    int64_t version = 0;
    wire_field field;

    while (wire_next(&import, &field)) {
        if (field.number == OPSET_DOMAIN)
            name = field.data;
        else if (field.number == OPSET_VERSION)
            version = (int64_t)field.value;
    }
    *bad |= import.count > 0;
    return same_domain(name, domain) ? version : 0;
}

/* The version of a domain that the file imports; 0: none. */
static OrtStatus *find_opset(const void *data, size_t bytes, const char *domain, int64_t *out)
{
    wire_span rest = { data, bytes };
    bool bad = false;
    wire_field field;

    *out = 0;
    while (!bad && *out == 0 && wire_next(&rest, &field))
        if (field.number == MODEL_OPSET)
            *out = opset_version(field.data, domain, &bad);
    bad |= *out == 0 && rest.count > 0;
    return bad ? ort_fail(ORT_INVALID_PROTOBUF, "the model is no ONNX file: a field is malformed") : NULL;
}

static void extend_graph(ort_writer *file, wire_span old, const OrtGraph *added, bool *bad)
{
    ort_writer graph = { 0 };
    wire_field field;

    while (wire_next(&old, &field)) {
        const bool replaced = (field.number == GRAPH_INPUT && added->input_count > 0) ||
                              (field.number == GRAPH_OUTPUT && added->output_count > 0);

        if (!replaced)
            ort_put(&graph, field.whole.at, field.whole.count);
    }
    *bad |= old.count > 0;
    put_graph(&graph, added);
    ort_put_message(file, MODEL_GRAPH, &graph);
}

OrtStatus *ort_model_extend(const OrtModel *model, const void *data, size_t bytes, void **out_data, size_t *out_bytes)
{
    wire_span rest = { data, bytes };
    ort_writer file = { 0 };
    bool bad = false;
    wire_field field;

    if (model->graph == NULL)
        return ort_fail(ORT_INVALID_ARGUMENT, "the model has no graph: call AddGraphToModel");
    for (size_t i = 0; i < model->opset_count; i++) {
        int64_t version;

        ORT_TRY(find_opset(data, bytes, model->domains[i], &version));
        if (version != 0 && version != model->versions[i])
            return ort_fail(ORT_INVALID_ARGUMENT,
                            "the model imports version %lld of domain '%s'; the nodes that are added have %d",
                            (long long)version, model->domains[i], model->versions[i]);
    }
    while (wire_next(&rest, &field)) {
        if (field.number == MODEL_GRAPH)
            extend_graph(&file, field.data, model->graph, &bad);
        else
            ort_put(&file, field.whole.at, field.whole.count);
    }
    for (size_t i = 0; i < model->opset_count; i++) {
        int64_t version = 0;

        ort_ReleaseStatus(find_opset(data, bytes, model->domains[i], &version));
        if (version == 0)
            put_opset(&file, model->domains[i], model->versions[i]);
    }
    if (bad || rest.count > 0) {
        free(file.data);
        return ort_fail(ORT_INVALID_PROTOBUF, "the model is no ONNX file: a field is malformed");
    }
    return finish(&file, out_data, out_bytes);
}

OrtStatus *ort_SessionGetOpsetForDomain(const OrtSession *session, const char *domain, int *opset)
{
    int64_t version;

    ORT_NEED(session);
    ORT_NEED(domain);
    ORT_NEED(opset);
    if (session->bytes == NULL)
        return ort_fail(ORT_FAIL, "the session was not created for editing: call CreateModelEditorSession");
    ORT_TRY(find_opset(session->bytes, session->byte_count, domain, &version));
    if (version == 0)
        return ort_fail(ORT_FAIL, "Domain not used by model.");
    *opset = (int)version;
    return NULL;
}
