/* Fused nodes: an inlay session each, whose runs read the runtime's inputs and write its outputs in place. */
#include "ort_ep.h"
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A shape; count is 0 or the rank. */
struct shape {
    int64_t dims[INLAY_MAX_RANK];
    size_t rank;
};

/* A context that no run uses, or that of a run. */
struct run {
    struct run *next;
    inlay_context *context;
    struct shape *inputs;  /* [input_count] of the last run */
    struct shape *outputs; /* [output_count] */
    void **memory;         /* [output_count] the runtime's memory that this run writes; NULL: inlay's */
    enum { NOT_ASKED, DEPENDS_ON_DATA, KNOWN } result; /* whether runs with these inputs always have these outputs */
};

struct fused {
    OrtNodeComputeInfo base; /* first: the runtime passes pointers to it */
    const struct ep *self;
    char *name; /* for profiles */
    ep_model *model;
    uint32_t *inputs, *outputs; /* [input_count], [output_count] indexes of the session; INLAY_NONE: not used */
    size_t input_count, output_count;
    pthread_mutex_t lock;
    struct run *idle; /* guarded by lock */
};

static void run_destroy(struct run *old)
{
    if (old == NULL)
        return;
    inlay_context_destroy(old->context);
    free(old->inputs);
    free(old->outputs);
    free(old->memory);
    free(old);
}

static OrtStatus *run_create(const struct fused *node, struct run **out)
{
    const ep_runtime *runtime = &node->self->runtime;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct run *made = calloc(1, sizeof *made);
    inlay_status status;

    *out = NULL;
    if (made == NULL)
        return ep_no_memory(runtime);
    made->inputs = calloc(node->input_count + 1, sizeof *made->inputs);
    made->outputs = calloc(node->output_count + 1, sizeof *made->outputs);
    made->memory = calloc(node->output_count + 1, sizeof *made->memory);
    status = inlay_context_create(node->model->session, &made->context, &diag);
    if (status != INLAY_OK || made->inputs == NULL || made->outputs == NULL || made->memory == NULL) {
        run_destroy(made);
        return status != INLAY_OK ? ep_from(runtime, status, &diag) : ep_no_memory(runtime);
    }
    *out = made;
    return NULL;
}

static OrtStatus *take_run(struct fused *node, struct run **out)
{
    (void)pthread_mutex_lock(&node->lock);
    *out = node->idle;
    if (*out != NULL)
        node->idle = (*out)->next;
    (void)pthread_mutex_unlock(&node->lock);
    return *out != NULL ? NULL : run_create(node, out);
}

static void return_run(struct fused *node, struct run *used)
{
    (void)pthread_mutex_lock(&node->lock);
    used->next = node->idle;
    node->idle = used;
    (void)pthread_mutex_unlock(&node->lock);
}

static OrtStatus *read_shape(const ep_runtime *runtime, const OrtValue *value, struct shape *out,
                             inlay_dtype *out_dtype)
{
    OrtTensorTypeAndShapeInfo *info = NULL;
    ONNXTensorElementDataType type = 0;
    OrtStatus *failed;

    *out = (struct shape){ 0 };
    ORT_TRY(runtime->api->GetTensorTypeAndShape(value, &info));
    failed = runtime->api->GetTensorElementType(info, &type);
    if (failed == NULL)
        failed = runtime->api->GetDimensionsCount(info, &out->rank);
    if (failed == NULL && out->rank > INLAY_MAX_RANK)
        failed = ep_fail(runtime, ORT_INVALID_ARGUMENT, "an input", "its rank is above 16");
    if (failed == NULL)
        failed = runtime->api->GetDimensions(info, out->dims, out->rank);
    runtime->api->ReleaseTensorTypeAndShapeInfo(info);
    *out_dtype = ep_dtype(type);
    return failed;
}

static bool same_shape(const struct shape *left, const struct shape *right)
{
    return left->rank == right->rank && memcmp(left->dims, right->dims, left->rank * sizeof *left->dims) == 0;
}

/* Binds the memory of a tensor of the runtime as an input, or as an output. */
static OrtStatus *bind(const ep_runtime *runtime, const struct run *to, bool output, uint32_t index,
                       const struct shape *of, inlay_dtype dtype, const OrtValue *value, void **out_data)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *borrowed = NULL;
    const void *data = NULL;
    inlay_status status;
    size_t bytes = 0;

    ORT_TRY(runtime->api->GetTensorData(value, &data));
    ORT_TRY(runtime->api->GetTensorSizeInBytes(value, &bytes));
    *out_data = (void *)(uintptr_t)data; /* inputs are only read */
    status = inlay_value_borrow(dtype, (uint32_t)of->rank, of->dims, *out_data, bytes, &borrowed, &diag);
    if (status == INLAY_OK)
        status = output ? inlay_context_set_output(to->context, index, borrowed, &diag)
                        : inlay_context_set_input(to->context, index, borrowed, &diag);
    inlay_value_unref(borrowed);
    return ep_from(runtime, status, &diag);
}

static OrtStatus *bind_inputs(const struct fused *node, struct run *to, const OrtKernelContext *context)
{
    const ep_runtime *runtime = &node->self->runtime;

    for (size_t i = 0; i < node->input_count; i++) {
        const OrtValue *value = NULL;
        inlay_dtype dtype;
        struct shape now;
        void *data;

        if (node->inputs[i] == INLAY_NONE)
            continue;
        ORT_TRY(runtime->api->KernelContext_GetInput(context, i, &value));
        if (value == NULL)
            continue;
        ORT_TRY(read_shape(runtime, value, &now, &dtype));
        if (!same_shape(&now, &to->inputs[i]))
            to->result = NOT_ASKED;
        to->inputs[i] = now;
        ORT_TRY(bind(runtime, to, false, node->inputs[i], &now, dtype, value, &data));
    }
    return NULL;
}

/* Shapes are known from an earlier run. Those that the model declares need not be right: the runtime only warns. */
static OrtStatus *bind_outputs(const struct fused *node, struct run *to, OrtKernelContext *context)
{
    const ep_runtime *runtime = &node->self->runtime;

    for (size_t i = 0; i < node->output_count; i++) {
        inlay_io_info info = { .struct_size = sizeof info };
        const struct shape *expected = &to->outputs[i];
        OrtValue *value = NULL;

        to->memory[i] = NULL;
        if (node->outputs[i] == INLAY_NONE ||
            inlay_session_output(node->model->session, node->outputs[i], &info) != INLAY_OK)
            continue;
        (void)inlay_context_set_output(to->context, node->outputs[i], NULL, NULL);
        if (to->result != KNOWN)
            continue;
        ORT_TRY(runtime->api->KernelContext_GetOutput(context, i, expected->dims, expected->rank, &value));
        if (value != NULL)
            ORT_TRY(bind(runtime, to, true, node->outputs[i], expected, info.dtype, value, &to->memory[i]));
    }
    return NULL;
}

/* Copies what inlay did not write into the runtime's memory: outputs whose shape was not known before the run. */
static OrtStatus *finish_output(const struct fused *node, struct run *of, size_t index, OrtKernelContext *context)
{
    const ep_runtime *runtime = &node->self->runtime;
    const inlay_value *result = inlay_context_output(of->context, node->outputs[index]);
    void *data = of->memory[index];
    OrtValue *value = NULL;
    struct shape actual = { 0 };

    if (result == NULL)
        return ep_fail(runtime, ORT_EP_FAIL, "inlay", "an output has no value");
    actual.rank = inlay_value_rank(result);
    if (actual.rank > 0)
        memcpy(actual.dims, inlay_value_dims(result), actual.rank * sizeof *actual.dims);
    if (data != NULL && !same_shape(&actual, &of->outputs[index]))
        return ep_fail(runtime, ORT_EP_FAIL, "inlay", "an output has another shape than in the run before");
    of->outputs[index] = actual;
    if (data == NULL) {
        ORT_TRY(runtime->api->KernelContext_GetOutput(context, index, actual.dims, actual.rank, &value));
        if (value == NULL)
            return NULL;
        ORT_TRY(runtime->api->GetTensorMutableData(value, &data));
    }
    if (data != inlay_value_data(result) && inlay_value_bytes(result) > 0)
        memcpy(data, inlay_value_data(result), (size_t)inlay_value_bytes(result));
    return NULL;
}

/* Asked once for the shapes of the inputs. */
static void ask_plan(struct run *with)
{
    /* The struct ends before predicted_ns: predicting takes as long as many runs of a small model. */
    inlay_plan_info plan = { .struct_size = offsetof(inlay_plan_info, predicted_ns) };

    if (inlay_context_plan(with->context, &plan) == INLAY_OK)
        with->result = plan.dynamic_step_count == 0 ? KNOWN : DEPENDS_ON_DATA;
}

static OrtStatus *run_once(const struct fused *node, struct run *with, OrtKernelContext *context)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;

    ORT_TRY(bind_inputs(node, with, context));
    ORT_TRY(bind_outputs(node, with, context));
    status = ep_profile_wanted() ? ep_profile_run(with->context, node->name, &diag)
                                 : inlay_context_run(with->context, NULL, &diag);
    ORT_TRY(ep_from(&node->self->runtime, status, &diag));
    for (size_t i = 0; i < node->output_count; i++)
        if (node->outputs[i] != INLAY_NONE)
            ORT_TRY(finish_output(node, with, i, context));
    if (with->result == NOT_ASKED)
        ask_plan(with);
    return NULL;
}

static OrtStatus *create_state(OrtNodeComputeInfo *base, OrtNodeComputeContext *context, void **state)
{
    (void)context;
    *state = base;
    return NULL;
}

static void release_state(OrtNodeComputeInfo *base, void *state)
{
    (void)base;
    (void)state;
}

static OrtStatus *compute(OrtNodeComputeInfo *base, void *state, OrtKernelContext *context)
{
    struct fused *node = (struct fused *)(void *)base;
    struct run *with;
    OrtStatus *failed;

    (void)state;
    ORT_TRY(take_run(node, &with));
    failed = run_once(node, with, context);
    if (failed != NULL)
        with->result = NOT_ASKED;
    return_run(node, with);
    return failed;
}

static void fused_destroy(struct fused *node)
{
    if (node == NULL)
        return;
    while (node->idle != NULL) {
        struct run *first = node->idle;

        node->idle = first->next;
        run_destroy(first);
    }
    ep_model_destroy(node->model);
    free(node->name);
    free(node->inputs);
    free(node->outputs);
    (void)pthread_mutex_destroy(&node->lock);
    free(node);
}

/* The index in the session of each value of the fused node. */
static OrtStatus *find_values(const ep_runtime *runtime, const inlay_session *session, const ep_values *values,
                              uint32_t (*find)(const inlay_session *, const char *), uint32_t **out)
{
    *out = calloc(values->count + 1, sizeof **out);
    if (*out == NULL)
        return ep_no_memory(runtime);
    for (size_t i = 0; i < values->count; i++) {
        const char *name;

        (*out)[i] = INLAY_NONE;
        if (values->items[i] == NULL)
            continue;
        ORT_TRY(runtime->api->GetValueInfoName(values->items[i], &name));
        (*out)[i] = find(session, name);
        if ((*out)[i] == INLAY_NONE && find == inlay_session_find_output)
            return ep_fail(runtime, ORT_EP_FAIL, name, "inlay's model does not compute this output");
    }
    return NULL;
}

/* The session of the nodes: that of an EPContext node, or of the whole graph, if these are all of its nodes. */
static OrtStatus *get_model(struct ep *self, const OrtGraph *graph, const ep_values *outputs, ep_model **out)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    ep_nodes nodes;
    OrtStatus *failed = ep_graph_nodes(&self->runtime, graph, &nodes);
    bool is_context = false;

    if (failed == NULL && nodes.count == 1)
        failed = ep_context_is_own(&self->runtime, nodes.items[0], &is_context);
    if (failed == NULL && is_context) {
        failed = ep_context_read(self, graph, nodes.items[0], out);
    } else if (failed == NULL && self->whole != NULL && self->whole->node_count == nodes.count) {
        *out = self->whole;
        self->whole = NULL;
    } else if (failed == NULL) {
        const ep_group group = { .graph = graph,
                                 .nodes = nodes.items,
                                 .count = nodes.count,
                                 .outputs = outputs->items,
                                 .output_count = outputs->count };

        failed = ep_model_create(self, &group, out, &diag);
        if (failed == NULL && *out == NULL)
            failed = ep_fail(&self->runtime, ORT_EP_FAIL, "inlay", diag.text);
    }
    free(nodes.items);
    return failed;
}

static OrtStatus *compile_one(struct ep *self, const OrtGraph *graph, const OrtNode *fused_node, struct fused *node,
                              OrtNode **context_node)
{
    const ep_runtime *runtime = &self->runtime;
    ep_values inputs = { 0 }, outputs = { 0 };
    const char *name = NULL;
    OrtStatus *failed = runtime->api->Node_GetName(fused_node, &name);

    if (failed == NULL && (node->name = strdup(name)) == NULL)
        failed = ep_no_memory(runtime);
    if (failed == NULL)
        failed = ep_node_inputs(runtime, fused_node, &inputs);
    node->base = (OrtNodeComputeInfo){ .ort_version_supported = EP_API_VERSION,
                                       .CreateState = create_state,
                                       .Compute = compute,
                                       .ReleaseState = release_state };
    node->self = self;
    if (failed == NULL)
        failed = ep_node_outputs(runtime, fused_node, &outputs);
    if (failed == NULL)
        failed = get_model(self, graph, &outputs, &node->model);
    if (failed == NULL)
        failed = find_values(runtime, node->model->session, &inputs, inlay_session_find_input, &node->inputs);
    if (failed == NULL)
        failed = find_values(runtime, node->model->session, &outputs, inlay_session_find_output, &node->outputs);
    if (failed == NULL && self->context.wanted && context_node != NULL)
        failed = ep_context_write(self, graph, fused_node, &inputs, &outputs, node->model, context_node);
    node->input_count = inputs.count;
    node->output_count = outputs.count;
    free(inputs.items);
    free(outputs.items);
    return failed;
}

OrtStatus *ep_compile(OrtEp *base, const OrtGraph **graphs, const OrtNode **fused_nodes, size_t count,
                      OrtNodeComputeInfo **infos, OrtNode **ep_context_nodes)
{
    struct ep *self = (struct ep *)(void *)base;
    OrtStatus *failed = NULL;

    for (size_t i = 0; i < count; i++)
        infos[i] = NULL;
    for (size_t i = 0; failed == NULL && i < count; i++) {
        struct fused *node = calloc(1, sizeof *node);

        if (node == NULL) {
            failed = ep_no_memory(&self->runtime);
            break;
        }
        (void)pthread_mutex_init(&node->lock, NULL);
        infos[i] = &node->base;
        failed =
            compile_one(self, graphs[i], fused_nodes[i], node, ep_context_nodes != NULL ? &ep_context_nodes[i] : NULL);
    }
    for (size_t i = 0; failed != NULL && i < count; i++) {
        fused_destroy((struct fused *)(void *)infos[i]);
        infos[i] = NULL;
    }
    return failed;
}

void ep_release_compute_infos(OrtEp *base, OrtNodeComputeInfo **infos, size_t count)
{
    (void)base;
    for (size_t i = 0; i < count; i++)
        fused_destroy((struct fused *)(void *)infos[i]);
}
