#include "quantize/opset.h"
#include "model/model.h"
#include "quantize/edit.h"
#include <string.h>

/* A node on its way to a later opset. */
typedef struct raising {
    editor *e;
    graph_node *n;
    int64_t opset;
} raising;

static const char *op_of(const raising *r)
{
    return r->n->info.op_type.data;
}

static const char *name_of(const raising *r)
{
    return r->n->info.name.data;
}

static bool is_one_of(const char *op, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(op, names[i]) == 0)
            return true;
    return false;
}

/* ------------------------------------------------------------------ attributes */

static const inlay_attr_info *stated(const graph_node *n, const char *name)
{
    for (uint32_t i = 0; i < n->own_attr_count; i++)
        if (strcmp(n->info.attrs[i].name.data, name) == 0)
            return &n->info.attrs[i];
    return NULL;
}

static int64_t int_or(const graph_node *n, const char *name, int64_t otherwise)
{
    const inlay_attr_info *a = graph_attr(n, name);

    return a != NULL && a->kind == INLAY_ATTR_INT ? a->i : otherwise;
}

/* Takes an attribute away; those that follow move up. */
static void drop_attr(raising *r, const char *name)
{
    graph_node *n = r->n;
    inlay_attr_info *list = arena_array(&r->e->g->model->arena, (size_t)n->own_attr_count + 1, sizeof *list);
    uint32_t kept = 0;

    if (list == NULL) {
        r->e->failed = true;
        return;
    }
    for (uint32_t i = 0; i < n->own_attr_count; i++)
        if (strcmp(n->info.attrs[i].name.data, name) != 0)
            list[kept++] = n->info.attrs[i];
    n->info.attrs = list;
    n->info.attr_count = n->own_attr_count = kept;
}

/* ------------------------------------------------------------------ inputs */

static void set_input(raising *r, uint32_t i, uint32_t v)
{
    graph_node *n = r->n;

    if (i >= n->info.input_count) {
        uint32_t *longer = arena_array(&r->e->g->model->arena, (size_t)i + 1, sizeof *longer);

        if (longer == NULL) {
            r->e->failed = true;
            return;
        }
        for (uint32_t k = 0; k <= i; k++)
            longer[k] = k < n->info.input_count ? n->info.inputs[k] : INLAY_NONE;
        n->info.inputs = longer;
        n->info.input_count = i + 1;
    }
    edit_input(n, i, v);
}

static uint32_t ints(raising *r, const char *suffix, const int64_t *values, uint32_t count, bool scalar)
{
    const int64_t dims[] = { count };
    int64_t *data = edit_memory(r->e, (uint64_t)count * sizeof *data);

    if (data != NULL && count > 0)
        memcpy(data, values, count * sizeof *data);
    return edit_constant(r->e, name_of(r), suffix, INLAY_INT64, scalar ? 0 : 1, dims, data,
                         (uint64_t)count * sizeof *data);
}

/* A list of integers becomes an input. */
static void ints_to_input(raising *r, const char *attr, uint32_t i)
{
    const inlay_attr_info *a = stated(r->n, attr);

    if (a == NULL)
        return;
    if (a->kind == INLAY_ATTR_INTS)
        set_input(r, i, ints(r, attr, a->ints, a->count, false));
    else if (a->kind == INLAY_ATTR_INT)
        set_input(r, i, ints(r, attr, &a->i, 1, false));
    drop_attr(r, attr);
}

static void float_to_input(raising *r, const char *attr, uint32_t i)
{
    const inlay_attr_info *a = stated(r->n, attr);

    if (a == NULL)
        return;
    set_input(r, i, edit_float(r->e, name_of(r), attr, (float)a->f));
    drop_attr(r, attr);
}

/* ------------------------------------------------------------------ operators */

static bool is_reduction(const char *op)
{
    static const char *const names[] = { "ReduceMean",   "ReduceMax", "ReduceMin", "ReduceProd",      "ReduceL1",
                                         "ReduceL2",     "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare" };

    return is_one_of(op, names, sizeof names / sizeof names[0]);
}

/* Before opset 13 all axes from `axis` on are one. */
static void raise_softmax(raising *r)
{
    const uint32_t in = r->n->info.inputs[0], out = r->n->info.outputs[0];
    const uint32_t rank = r->e->g->values[in].info.rank;
    int64_t axis = int_or(r->n, "axis", 1);
    uint32_t flat, shape, back[2];
    graph_node *flatten, *reshape;

    axis += axis < 0 && rank != INLAY_RANK_UNKNOWN ? rank : 0;
    drop_attr(r, "axis");
    edit_int(r->e, r->n, "axis", -1);
    if (rank != INLAY_RANK_UNKNOWN && axis == (int64_t)rank - 1)
        return;
    flat = edit_node(r->e, name_of(r), "_flat", "Flatten", "", &in, 1, &flatten);
    edit_int(r->e, flatten, "axis", axis);
    shape = edit_node(r->e, name_of(r), "_shape", "Shape", "", &in, 1, NULL);
    back[0] = INLAY_NONE;
    back[1] = shape;
    *(uint32_t *)(uintptr_t)r->n->info.outputs = edit_node(r->e, name_of(r), "_rows", "Reshape", "", back, 2, &reshape);
    if (reshape == NULL || flatten == NULL)
        return;
    edit_input(reshape, 0, r->n->info.outputs[0]);
    *(uint32_t *)(uintptr_t)reshape->info.outputs = out;
    edit_input(r->n, 0, flat);
}

static void raise_split(raising *r)
{
    const bool has_sizes = stated(r->n, "split") != NULL || r->n->info.input_count > 1;

    if (r->n->info.since_version < 13)
        ints_to_input(r, "split", 1);
    if (r->opset >= 18 && !has_sizes && stated(r->n, "num_outputs") == NULL)
        edit_int(r->e, r->n, "num_outputs", r->n->info.output_count);
}

/* The first Resize and Upsample leave out what lies between pixels as "asymmetric" does. */
static void raise_resize(raising *r)
{
    const uint32_t scales = r->n->info.input_count > 1 ? r->n->info.inputs[1] : INLAY_NONE;
    const inlay_attr_info *list = stated(r->n, "scales"), *mode = stated(r->n, "mode");
    const bool nearest = mode == NULL || strcmp(mode->s.data, "nearest") == 0;

    set_input(r, 1, INLAY_NONE);
    if (list != NULL && list->kind == INLAY_ATTR_FLOATS) {
        const int64_t dims[] = { list->count };
        float *data = edit_memory(r->e, (uint64_t)list->count * sizeof *data);

        for (uint32_t i = 0; data != NULL && i < list->count; i++)
            data[i] = (float)list->floats[i];
        set_input(r, 2, edit_constant(r->e, name_of(r), "scales", INLAY_FLOAT, 1, dims, data,
                                      (uint64_t)list->count * sizeof *data));
        drop_attr(r, "scales");
    } else {
        set_input(r, 2, scales);
    }
    r->n->info.op_type = (inlay_str){ "Resize", 6 };
    r->e->failed |= graph_set_attr_string(r->e->g, r->n, "coordinate_transformation_mode", "asymmetric") != INLAY_OK;
    if (nearest)
        r->e->failed |= graph_set_attr_string(r->e->g, r->n, "nearest_mode", "floor") != INLAY_OK;
}

static void raise_slice(raising *r)
{
    const inlay_attr_info *starts = stated(r->n, "starts");

    if (starts == NULL)
        return;
    ints_to_input(r, "starts", 1);
    ints_to_input(r, "ends", 2);
    ints_to_input(r, "axes", 3);
}

/* Operators of which newer versions have more types or attributes whose default is what was before. */
static bool only_grew(const char *op)
{
    static const char *const names[] = { "ArgMax", "ArgMin", "BatchNormalization", "Cast", "DequantizeLinear",
                                         "GRU", "GatherND", "LSTM", "QuantizeLinear", "RNN", "Reshape", "Resize",
                                         "ScatterElements", "ScatterND", "Shape", "Dropout" };

    return is_one_of(op, names, sizeof names / sizeof names[0]);
}

/* True: the node has the form of the later opset now. */
static bool raise_node(raising *r)
{
    const char *op = op_of(r);
    const uint32_t since = r->n->info.since_version;

    if (strcmp(op, "Squeeze") == 0 || strcmp(op, "Unsqueeze") == 0 || strcmp(op, "ReduceSum") == 0) {
        if (since < 13 && r->opset >= 13)
            ints_to_input(r, "axes", 1);
    } else if (is_reduction(op)) {
        if (since < 18 && r->opset >= 18)
            ints_to_input(r, "axes", 1);
    } else if (strcmp(op, "Softmax") == 0 || strcmp(op, "LogSoftmax") == 0 || strcmp(op, "Hardmax") == 0) {
        if (since < 13 && r->opset >= 13)
            raise_softmax(r);
    } else if (strcmp(op, "Split") == 0) {
        raise_split(r);
    } else if (strcmp(op, "Clip") == 0) {
        if (since < 11) {
            float_to_input(r, "min", 1);
            float_to_input(r, "max", 2);
        }
    } else if (strcmp(op, "Pad") == 0) {
        if (since < 11) {
            ints_to_input(r, "pads", 1);
            float_to_input(r, "value", 2);
        }
    } else if (strcmp(op, "Slice") == 0) {
        raise_slice(r);
    } else if (strcmp(op, "TopK") == 0) {
        if (since < 10)
            ints_to_input(r, "k", 1);
    } else if (strcmp(op, "Upsample") == 0 || (strcmp(op, "Resize") == 0 && since < 11)) {
        raise_resize(r);
    } else if (strcmp(op, "BatchNormalization") == 0 && (since < 9 || r->n->info.output_count > 1)) {
        return false;
    } else if (!only_grew(op)) {
        return false;
    }
    if (strcmp(op, "Dropout") == 0 && since < 12)
        drop_attr(r, "ratio");
    return true;
}

static inlay_status raise_graph(graph *g, int64_t opset, inlay_diag *diag)
{
    const uint32_t count = g->node_count; /* the new ones are new already */
    editor e;
    inlay_status status = INLAY_OK;

    edit_begin(&e, g);
    for (uint32_t i = 0; i < count && !e.failed; i++) {
        raising r = { &e, g->nodes[i], opset };

        for (uint32_t b = 0; status == INLAY_OK && b < r.n->body_count; b++)
            status = raise_graph(r.n->bodies[b].graph, opset, diag);
        if (r.n->row == NULL || r.n->body_count > 0 || strcmp(r.n->info.domain.data, "ai.onnx") != 0)
            continue;
        if (raise_node(&r)) { /* the writer need not look at it again */
            r.n->row = NULL;
            r.n->schema = NULL;
            r.n->opset = opset;
        }
    }
    if (status == INLAY_OK)
        return edit_finish(&e, diag);
    names_deinit(&e.names);
    return status;
}

static void mark_new(graph *g, int64_t opset)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        if (g->nodes[i]->row == NULL && strcmp(g->nodes[i]->info.domain.data, "ai.onnx") == 0)
            g->nodes[i]->opset = opset;
        for (uint32_t b = 0; b < g->nodes[i]->body_count; b++)
            mark_new(g->nodes[i]->bodies[b].graph, opset);
    }
}

inlay_status opset_raise(graph_model *model, int64_t opset, inlay_diag *diag)
{
    const int64_t now = graph_model_opset(model, "ai.onnx");
    const uint32_t functions = model->function_count;
    inlay_status status = INLAY_OK;

    if (opset > now)
        INLAY_TRY(raise_graph(model->main, opset, diag));
    INLAY_TRY(model_outline(model, opset > now ? opset : 0, diag));
    mark_new(model->main, graph_model_opset(model, "ai.onnx"));
    if (model->function_count > functions)
        status = inlay_fail(diag, INLAY_UNSUPPORTED, "a node of the model has no form in opset %lld; convert the model "
                            "with onnx.version_converter first",
                            (long long)graph_model_opset(model, "ai.onnx"));
    /* 4 bits are types since version 10 of the format; before 4 every constant had to be an input. */
    opset = graph_model_opset(model, "ai.onnx");
    if (opset >= 21 && model->ir_version < 10)
        model->ir_version = 10;
    else if (model->ir_version < 7)
        model->ir_version = 7;
done:
    return status;
}
