/* EPContext nodes: the form in which ONNX Runtime stores what a library has compiled. Here the host's engine cache
 * keeps them, each as a blob: the head, texts and numbers of 8 bytes; each text has its size before it, and a NUL
 * after it. */
#include "ort_ep/provider.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char head[] = "inlay EPContext 1";
enum { MOST_ATTRS = 64, MOST_ENDS = 65536 };

/* A blob that is being stored. */
struct blob_out {
    const inlay_compile_request *request;
    inlay_status status;
};

static void put(struct blob_out *out, const void *data, uint64_t bytes)
{
    if (out->status == INLAY_OK && bytes > 0)
        out->status = out->request->store_write(out->request->ctx, data, bytes);
}

static void put_number(struct blob_out *out, uint64_t number)
{
    put(out, &number, sizeof number);
}

static void put_bytes(struct blob_out *out, const char *data, uint64_t bytes)
{
    put_number(out, bytes);
    put(out, data, bytes);
    put(out, "", 1);
}

static void put_text(struct blob_out *out, const char *text)
{
    put_bytes(out, text, strlen(text));
}

static void put_attr(struct blob_out *out, const OrtOpAttr *attr)
{
    put_text(out, attr->name);
    put_number(out, (uint64_t)attr->type);
    if (attr->type == ORT_OP_ATTR_STRING)
        put_bytes(out, attr->strings[0].data, attr->strings[0].bytes);
    else if (attr->type == ORT_OP_ATTR_FLOAT)
        put(out, attr->floats, sizeof(float));
    else
        put(out, attr->ints, sizeof(int64_t));
}

/* An omitted input has an empty name. */
static void put_names(struct blob_out *out, const OrtValueInfo *const *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_text(out, values[i] != NULL ? values[i]->info->name.data : "");
}

/* Attributes of EPContext are numbers and strings. */
static bool can_store(const OrtNode *node)
{
    for (size_t i = 0; i < node->attr_count; i++)
        if (node->attrs[i]->type != ORT_OP_ATTR_STRING && node->attrs[i]->type != ORT_OP_ATTR_INT &&
            node->attrs[i]->type != ORT_OP_ATTR_FLOAT)
            return false;
    return node->attr_count <= MOST_ATTRS && strcmp(node->info->op_type.data, "EPContext") == 0;
}

void ep_context_store(const ep_state *state, OrtEp *ep, const inlay_compile_request *request, const OrtGraph *view,
                      const OrtNode *fused, bool drops_constants, const OrtNode *node)
{
    const char *compatibility =
        ep->GetCompiledModelCompatibilityInfo != NULL ? ep->GetCompiledModelCompatibilityInfo(ep, view) : NULL;
    struct blob_out out = { .request = request };
    char line[200];

    out.status = can_store(node) ? request->store_begin(request->ctx, 0) : INLAY_UNSUPPORTED;
    put_text(&out, head);
    put_text(&out, compatibility != NULL ? compatibility : "");
    put_text(&out, fused->info->name.data);
    put_text(&out, node->info->name.data);
    put_number(&out, drops_constants);
    put_number(&out, fused->input_count);
    put_number(&out, fused->output_count);
    put_number(&out, node->attr_count);
    put_names(&out, fused->inputs, fused->input_count);
    put_names(&out, fused->outputs, fused->output_count);
    for (size_t i = 0; i < node->attr_count; i++)
        put_attr(&out, node->attrs[i]);
    if (out.status == INLAY_OK)
        out.status = request->store_end(request->ctx);
    if (out.status == INLAY_OK)
        return;
    (void)snprintf(line, sizeof line, "execution provider %.60s: its EPContext node is not stored (status %d)",
                   state->name, (int)out.status);
    state->host->log(state->host->ctx, INLAY_LOG_INFO, line);
}

/* The rest of a blob; at is NULL after an error. */
struct blob_in {
    const char *at, *end;
};

static const void *take(struct blob_in *in, uint64_t bytes)
{
    const char *at = in->at;

    if (at == NULL || (uint64_t)(in->end - at) < bytes) {
        in->at = NULL;
        return NULL;
    }
    in->at = at + bytes;
    return at;
}

static uint64_t take_number(struct blob_in *in)
{
    const void *at = take(in, sizeof(uint64_t));
    uint64_t number = 0;

    if (at != NULL)
        memcpy(&number, at, sizeof number);
    return number;
}

/* NUL-terminated; NULL after an error. */
static const char *take_text(struct blob_in *in, uint64_t *out_bytes)
{
    const uint64_t bytes = take_number(in);
    const char *text = in->at != NULL && bytes < UINT64_MAX ? take(in, bytes + 1) : NULL;

    if (text == NULL || text[bytes] != '\0') {
        in->at = NULL;
        return NULL;
    }
    if (out_bytes != NULL)
        *out_bytes = bytes;
    return text;
}

static void take_attr(struct blob_in *in, inlay_attr_info *out)
{
    uint64_t bytes = 0;
    const void *data;
    float number;

    *out = (inlay_attr_info){ 0 };
    out->name.data = take_text(in, &out->name.bytes);
    switch (take_number(in)) {
    case ORT_OP_ATTR_STRING:
        out->kind = INLAY_ATTR_STRING;
        out->s.data = take_text(in, &bytes);
        out->s.bytes = bytes;
        break;
    case ORT_OP_ATTR_FLOAT:
        out->kind = INLAY_ATTR_FLOAT;
        data = take(in, sizeof number);
        if (data != NULL)
            memcpy(&number, data, sizeof number);
        out->f = data != NULL ? (double)number : 0;
        break;
    case ORT_OP_ATTR_INT:
        out->kind = INLAY_ATTR_INT;
        data = take(in, sizeof out->i);
        if (data != NULL)
            memcpy(&out->i, data, sizeof out->i);
        break;
    default:
        in->at = NULL;
    }
}

bool ep_context_read(ep_context *out, const void *blob, uint64_t bytes)
{
    struct blob_in in = { blob, (const char *)blob + bytes };
    const char *found = take_text(&in, NULL);
    inlay_attr_info attr;

    *out = (ep_context){ 0 };
    if (found == NULL || strcmp(found, head) != 0)
        return false;
    out->compatibility = take_text(&in, NULL);
    out->fused_name = take_text(&in, NULL);
    out->node_name = take_text(&in, NULL);
    out->drops_constants = take_number(&in) != 0;
    out->input_count = take_number(&in);
    out->output_count = take_number(&in);
    out->attr_count = take_number(&in);
    if (in.at == NULL || out->input_count > MOST_ENDS || out->output_count > MOST_ENDS || out->attr_count > MOST_ATTRS)
        return false;
    out->first_name = in.at;
    for (uint64_t i = 0; i < out->input_count + out->output_count; i++)
        (void)take_text(&in, NULL);
    out->first_attr = in.at;
    for (uint64_t i = 0; i < out->attr_count; i++)
        take_attr(&in, &attr);
    out->end = in.end;
    return in.at != NULL && in.at == in.end;
}

void ep_context_graph_deinit(ep_context_graph *graph)
{
    ort_ReleaseGraph(graph->view);
    free(graph->values);
    free(graph->attrs);
    free(graph->indices);
    *graph = (ep_context_graph){ .view = NULL };
}

/* A value of the stored node: the value of the region, under the name that it had when the node was made. */
static void copy_value(const OrtValueInfo *from, const char *name, bool is_output, inlay_value_info *out)
{
    *out = *from->info;
    out->name = (inlay_str){ name, strlen(name) };
    out->flags = is_output ? INLAY_VALUE_GRAPH_OUTPUT : INLAY_VALUE_GRAPH_INPUT;
    out->data = NULL;
    out->data_bytes = 0;
    out->elements = NULL;
    out->element_count = 0;
    out->producer = is_output ? 0 : INLAY_NONE;
}

OrtStatus *ep_context_graph_init(ep_context_graph *out, const ep_context *context, const OrtGraph *view,
                                 const OrtNode *fused)
{
    const size_t inputs = fused->input_count, count = inputs + fused->output_count;
    struct blob_in names = { context->first_name, context->first_attr };
    struct blob_in attrs = { context->first_attr, context->end };

    *out = (ep_context_graph){ .view = NULL };
    if (context->input_count != inputs || context->output_count != fused->output_count)
        return ort_fail(ORT_EP_FAIL, "the stored node has %" PRIu64 " inputs and %" PRIu64 " outputs",
                        context->input_count, context->output_count);
    out->values = calloc(count + 1, sizeof *out->values);
    out->indices = calloc(count + 1, sizeof *out->indices);
    out->attrs = calloc((size_t)context->attr_count + 1, sizeof *out->attrs);
    if (out->values == NULL || out->indices == NULL || out->attrs == NULL)
        return ort_no_memory();
    for (size_t i = 0; i < count; i++) {
        const OrtValueInfo *value = i < inputs ? fused->inputs[i] : fused->outputs[i - inputs];
        const char *name = take_text(&names, NULL);

        out->indices[i] = value != NULL ? (uint32_t)i : INLAY_NONE;
        if (value != NULL)
            copy_value(value, name, i >= inputs, &out->values[i]);
    }
    for (size_t i = 0; i < context->attr_count; i++)
        take_attr(&attrs, &out->attrs[i]);
    out->node = (inlay_node_info){ .name = { context->node_name, strlen(context->node_name) },
                                   .domain = { "com.microsoft", strlen("com.microsoft") },
                                   .op_type = { "EPContext", strlen("EPContext") },
                                   .since_version = 1,
                                   .inputs = out->indices,
                                   .input_count = (uint32_t)inputs,
                                   .outputs = out->indices + inputs,
                                   .output_count = (uint32_t)fused->output_count,
                                   .attrs = out->attrs,
                                   .attr_count = (uint32_t)context->attr_count,
                                   .attr_stride = sizeof *out->attrs };
    out->graph = *view->graph;
    out->graph.nodes = &out->node;
    out->graph.node_count = 1;
    out->graph.node_stride = sizeof out->node;
    out->graph.values = out->values;
    out->graph.value_count = (uint32_t)count;
    out->graph.value_stride = sizeof *out->values;
    out->graph.inputs = out->indices;
    out->graph.input_count = (uint32_t)inputs;
    out->graph.outputs = out->indices + inputs;
    out->graph.output_count = (uint32_t)fused->output_count;
    return ep_graph_create(&out->graph, NULL, 0, view->host, NULL, &out->view);
}

/* A node that OrtModelEditorApi creates: its inputs and outputs have names only. */
struct made_node {
    OrtNode node; /* first */
    inlay_node_info info;
    char *name, *domain, *op_type;
};

OrtStatus *ort_CreateNode(const char *operator_name, const char *domain_name, const char *node_name,
                          const char *const *input_names, size_t input_names_len, const char *const *output_names,
                          size_t output_names_len, OrtOpAttr **attributes, size_t attribs_len, OrtNode **node)
{
    struct made_node *made;

    (void)input_names, (void)input_names_len, (void)output_names, (void)output_names_len;
    ORT_NEED(operator_name);
    ORT_NEED(node);
    *node = NULL;
    if (attribs_len > 0)
        ORT_NEED(attributes);
    made = calloc(1, sizeof *made);
    if (made == NULL)
        return ort_no_memory();
    made->node.attrs = calloc(attribs_len + 1, sizeof(OrtOpAttr *));
    made->name = strdup(node_name != NULL ? node_name : "");
    made->domain = strdup(domain_name != NULL ? domain_name : "");
    made->op_type = strdup(operator_name);
    if (made->node.attrs == NULL || made->name == NULL || made->domain == NULL || made->op_type == NULL) {
        ort_ReleaseNode(&made->node);
        return ort_no_memory();
    }
    made->info = (inlay_node_info){ .name = { made->name, strlen(made->name) },
                                    .domain = { made->domain, strlen(made->domain) },
                                    .op_type = { made->op_type, strlen(made->op_type) },
                                    .since_version = 1 };
    made->node.info = &made->info;
    made->node.ep_name = "";
    for (size_t i = 0; i < attribs_len; i++) /* the node takes them */
        made->node.attrs[made->node.attr_count++] = attributes[i];
    *node = &made->node;
    return NULL;
}

/* Nodes of CreateNode are released by the library, or after Compile; other nodes are not. */
void ort_ReleaseNode(OrtNode *node)
{
    struct made_node *made = (struct made_node *)(void *)node;

    if (made == NULL)
        return;
    ep_node_deinit(&made->node);
    free(made->name);
    free(made->domain);
    free(made->op_type);
    free(made);
}

inlay_status ep_fingerprint(void *state_, inlay_fingerprint *out, inlay_diag *diag)
{
    const ep_state *state = state_;

    (void)diag;
    out->data = state->fingerprint;
    out->bytes = strlen(state->fingerprint);
    return INLAY_OK;
}

inlay_status ep_cache_verdict(void *state_, inlay_cache_request *request, inlay_diag *diag)
{
    ep_state *state = state_;
    OrtEpFactory *factory = state->library.device->factory;
    OrtCompiledModelCompatibility answer = ORT_COMPATIBILITY_NOT_APPLICABLE;
    ep_context context;
    OrtStatus *failed;

    if (!ep_context_read(&context, request->blob, request->bytes)) {
        request->verdict = INLAY_CACHE_UNSUPPORTED;
        (void)inlay_fail(diag, INLAY_OK, "it is no EPContext node");
        return INLAY_OK;
    }
    if (context.compatibility[0] == '\0' || factory->ValidateCompiledModelCompatibilityInfo == NULL)
        return INLAY_OK;
    (void)pthread_mutex_lock(&state->lock);
    failed = factory->ValidateCompiledModelCompatibilityInfo(factory, state->library.hardware,
                                                             state->library.used_count, context.compatibility, &answer);
    (void)pthread_mutex_unlock(&state->lock);
    if (failed != NULL)
        return ep_fail(state, "ValidateCompiledModelCompatibilityInfo", failed, INLAY_INTERNAL, diag);
    if (answer == ORT_COMPATIBILITY_OPTIMAL || answer == ORT_COMPATIBILITY_NOT_APPLICABLE)
        return INLAY_OK;
    request->verdict =
        answer == ORT_COMPATIBILITY_PREFER_RECOMPILATION ? INLAY_CACHE_RECOMPILE : INLAY_CACHE_UNSUPPORTED;
    (void)inlay_fail(diag, INLAY_OK, "execution provider %s prefers to compile the nodes again", state->name);
    return INLAY_OK;
}
