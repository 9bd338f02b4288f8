/* LSTM, GRU and RNN (ONNX 1..22): a step of the region that runs the kernel shared with provider reference
 * (operators/recurrent/recurrent.h). It packs constant weights when the region is compiled, reads and writes row-major
 * tensors, and keeps gates and states in the region's workspace. Any output may be omitted, including Y. */
#include "operators/recurrent/recurrent.h"
#include "inlay/check.h"
#include "inlay/execution.h"
#include "cpu/recurrent/layer.h"
#include "cpu/recurrent/projection.h"
#include "cpu/weights/low_bit_pack.h"
#include "cpu/weights/packs.h"
#include "cpu/weights/read.h"
#include "cpu/weights/recurrent_panels.h"
#include "inlay/plugin.h"
#include "simd/optional.h"
#include <stdio.h>

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(cpu_recurrent_release, "cpu_recurrent");
OPTIONAL_IF_CALLED(cpu_recurrent_cost);
OPTIONAL_IF_CALLED(cpu_recurrent_prepare);

enum { MAX_INPUTS = 8, MAX_OUTPUTS = 3 };
#define UNKNOWN_NS 1e5 /* estimate for a layer of unknown sizes */

static const kit_kernel *kernel_of(const char *op_type)
{
    for (uint32_t i = 0; i < RECURRENT_KERNELS; i++)
        if (strcmp(recurrent_kernels[i].op_type, op_type) == 0)
            return &recurrent_kernels[i];
    return NULL;
}

static bool parse_recurrent(const kit_node *node, cpu_op *op, kit_refusal *why)
{
    (void)op;
    if (node->info->input_count > MAX_INPUTS || node->info->output_count > MAX_OUTPUTS)
        return kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "more inputs or outputs than ONNX defines");
    for (uint32_t i = IN_X; i <= IN_R; i++)
        if (!cpu_known_rank(kit_input(node, i), 3, 3, i == IN_X ? "X" : i == IN_W ? "W" : "R", why))
            return false;
    for (uint32_t i = IN_B; i < node->info->input_count; i++) {
        const inlay_dtype dtype = kit_input_dtype(node, i);

        if (kit_input(node, i) != NULL && !cpu_known_rank(kit_input(node, i), 1, 3, "an input", why))
            return false;
        if (dtype != INLAY_UNDEFINED && dtype != (i == IN_LENGTHS ? INLAY_INT32 : INLAY_FLOAT))
            return kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "input %u is %s", i, inlay_dtype_name(dtype));
    }
    for (uint32_t o = 0; o < node->info->output_count; o++)
        if (kit_output(node, o) != NULL &&
            (kit_output_dtype(node, o) != INLAY_FLOAT || !cpu_known_rank(kit_output(node, o), 3, 4, "an output", why)))
            return why->code != 0 ? false : kit_refuse(why, INLAY_REFUSE_DTYPE, NULL, "output %u is not float", o);
    return true;
}

/* Is a multiplication of `rows` rows of X by terms faster than by floats? rows below 0: the number is unknown and
 * counts as large. */
static bool projects_by_terms(const cpu_state *state, const recurrent_state *layer, const struct panels *weights,
                              int64_t rows)
{
    return layer->pack.data != NULL && !layer->wide && !state->reproducible && terms_of_cpu() != NULL &&
           projection_saves_ns(weights, rows < 0 ? TERMS_BLOCK : rows, state->strict,
                               cpu_tile_pace(cpu_measured_speed(state->host))) > 0;
}

/* Packs W as terms if a run may have enough rows for them. */
static inlay_status prepare_projection(const cpu_state *state, const kit_node *node, cpu_op *op, inlay_diag *diag)
{
    const inlay_value_info *x = kit_input(node, IN_X), *w = kit_input(node, IN_W), *r = kit_input(node, IN_R);
    const recurrent_state *layer = op->recurrent.prepared;
    recurrent_layout layout;
    int64_t rows;

    if (layer->pack.data == NULL || !recurrent_compute_layout(layer, w->dims[2].value, r->dims[2].value, &layout))
        return INLAY_OK;
    if (x->dims[0].value < 0 || x->dims[1].value < 0 ||
        __builtin_mul_overflow(x->dims[0].value, x->dims[1].value, &rows))
        rows = -1;
    if (!projects_by_terms(state, layer, &layout.panels, rows))
        return INLAY_OK;
    op->recurrent.projection = projection_pack(&layout.panels, layer->constant, layer->direction == 2 ? 2 : 1);
    return op->recurrent.projection != NULL
               ? INLAY_OK
               : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the terms of the weights");
}

inlay_status cpu_recurrent_prepare(inlay_compiled *compiled, const inlay_compile_request *request,
                                   const inlay_node_info *info, cpu_op *op, inlay_diag *diag)
{
    uint8_t fate[MAX_INPUTS] = { 0 };
    const kit_node node = { .host = compiled->state->host,
                            .graph = request->graph,
                            .info = info,
                            .compile_handle = request->handle,
                            .constant_fate = fate };
    inlay_status status;

    op->recurrent.layer = kernel_of(op->row->op_type);
    INLAY_CHECK(op->recurrent.layer != NULL && op->in_count <= MAX_INPUTS);
    status = op->recurrent.layer->prepare(&node, &op->recurrent.prepared, diag);
    if (status == INLAY_OK)
        status = prepare_projection(compiled->state, &node, op, diag);
    if (status != INLAY_OK && diag != NULL && diag->node[0] == '\0')
        (void)snprintf(diag->node, sizeof diag->node, "%s", op->name);
    for (uint32_t i = 0; status == INLAY_OK && i < op->in_count; i++) {
        if (fate[i] == INLAY_CONST_BORROWED)
            continue;
        op->recurrent.dropped |= 1u << i;
        INLAY_CHECK(compiled->values[op->in[i]].constant < compiled->constant_count);
        compiled->constants[compiled->values[op->in[i]].constant].repacked_ops++;
    }
    return status;
}

void cpu_recurrent_release(cpu_op *op)
{
    if (op->recurrent.layer != NULL)
        op->recurrent.layer->release(op->recurrent.prepared);
    op->recurrent.prepared = NULL;
    free(op->recurrent.projection);
    op->recurrent.projection = NULL;
}

struct layer {
    cpu_native native;
    const kit_kernel *kernel;
    void *state;                                 /* owned by the op */
    void *plan;                                  /* owned by this struct */
    kit_tensor in[MAX_INPUTS], out[MAX_OUTPUTS]; /* shapes and types, without data */
    int64_t dims[MAX_INPUTS + MAX_OUTPUTS][CPU_MAX_RANK];
    uint32_t in_count, out_count;
    uint32_t in_arg[MAX_INPUTS], out_arg[MAX_OUTPUTS]; /* indices of arguments; INLAY_NONE: omitted */
    uint32_t workspace_arg;
    const float *projection; /* W as terms, borrowed from the op; NULL: the kernel multiplies by W */
    uint32_t projected_arg;  /* its results of all directions, and the scratch memory of workers */
    uint32_t workers;        /* of the projection, above 0 */
    bool panelled;           /* W and R are packed in panels */
    bool coded;              /* the panels contain codes (unfold.h) instead of floats */
};

static void release_layer(cpu_native *native)
{
    free(((struct layer *)(void *)native)->plan);
}

/* Panels of codes. Those of a matrix begin with group `first`. */
typedef struct coded_panels {
    unfold_codes codes;
    int64_t first;
} coded_panels;

enum { CODED_ROWS = 4 /* rows that are multiplied together */ };

/* A panels_fn (operators/panels.h) for panels of codes. */
static void coded_product(const struct panels *panels, const void *packed, int64_t first, int64_t end, bool backwards,
                          int64_t rows, const void *const *x, const void *start, void *const *y)
{
    const coded_panels *from = packed;
    const int64_t limit = panels->gates == 1 ? panels->columns : panels->stored;

    for (int64_t n = 0; n < end - first; n++) {
        const int64_t b0 = (backwards ? end - 1 - n : first + n) * panels->width, at = b0 * UNFOLD_LANES;
        const int64_t blocks = panels->blocks - b0 < panels->width ? panels->blocks - b0 : panels->width;
        const bool ragged = at + blocks * UNFOLD_LANES > limit;

        INLAY_CHECK(blocks > 0 && blocks <= UNFOLD_BLOCKS && at <= limit);
        for (int64_t r = 0, some; r < rows; r += some) {
            float buffer[CODED_ROWS][UNFOLD_BLOCKS * UNFOLD_LANES], *to[CODED_ROWS];
            unfold_product product = { .codes = &from->codes,
                                       .first = from->first + b0 * panels->depth,
                                       .step = blocks,
                                       .depth = panels->depth,
                                       .blocks = blocks,
                                       .rows = some = rows - r < CODED_ROWS ? rows - r : CODED_ROWS,
                                       .x = (const float *const *)x + r,
                                       .start = start != NULL ? (const float *)start + at : NULL,
                                       .y = to,
                                       .lone = panels->lone && rows == 1 };

            for (int64_t i = 0; i < some; i++)
                to[i] = ragged ? buffer[i] : (float *)y[r + i] + at;
            unfold_of_cpu()->product(&product);
            for (int64_t i = 0; ragged && i < some; i++)
                memcpy((float *)y[r + i] + at, buffer[i], (size_t)(limit - at) * sizeof(float));
        }
    }
}

/* W or R of a layer as codes, for both directions, and the matrix of the candidate gate. */
typedef struct coded_matrix {
    recurrent_matrix matrix;
    coded_panels of[2], candidate[2];
} coded_matrix;

/* Reads the codes of a packed matrix; false: their type is not supported. */
static bool open_codes(const void *pack, const recurrent_layout *layout, uint32_t input, coded_matrix *out)
{
    const int64_t each = (int64_t)(recurrent_panel_bytes(layout, input) / sizeof(float) / UNFOLD_LANES);
    unfold_codes codes;

    if (!low_bit_codes(pack, &codes))
        return false;
    out->matrix.product = coded_product;
    for (int64_t d = 0; d < 2; d++) {
        out->of[d] = out->candidate[d] = (coded_panels){ codes, d * each };
        out->candidate[d].first += (int64_t)((layout->candidate_at - layout->r_at) / sizeof(float) / UNFOLD_LANES);
        out->matrix.packed[d] = &out->of[d];
        out->matrix.candidate[d] = &out->candidate[d];
    }
    return true;
}

typedef struct projection_call {
    const terms_set *terms;
    sgemm_job job;
    float *scratch; /* of the first worker */
    uint32_t workers;
} projection_call;

static inlay_status project_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const projection_call *call = user;

    terms_run(call->terms, &call->job, call->scratch + worker % call->workers * terms_scratch_floats(&call->job), begin,
              end);
    return INLAY_OK;
}

/* Multiplies all rows of X by W. */
static inlay_status project(const struct layer *layer, const cpu_state *state, inlay_run *run, void *const *args,
                            recurrent_projected *out)
{
    const recurrent_plan *plan = layer->plan;
    const int64_t results = plan->steps * plan->batch * plan->weights.panels.stored;
    float *to = args[layer->projected_arg];
    inlay_status status = INLAY_OK;

    for (int64_t d = 0; d < plan->directions && status == INLAY_OK; d++) {
        projection_call call = { .terms = terms_of_cpu(),
                                 .scratch = to + plan->directions * results,
                                 .workers = layer->workers };

        projection_job(state->sgemm, layer->state, plan, layer->projection, d, state->strict, layer->workers,
                       &call.job);
        call.job.a = args[layer->in_arg[IN_X]];
        call.job.c = out->rows[d] = to + d * results;
        status = state->host->parallel_for(state->host->ctx, run, terms_units(&call.job), 1, project_units, &call);
    }
    return status;
}

static inlay_status run_layer(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const struct layer *layer = (const struct layer *)(const void *)native;
    kit_tensor in[MAX_INPUTS], out[MAX_OUTPUTS];
    coded_matrix matrices[2];
    recurrent_projected projected;
    const kit_call call = { .in = in,
                            .out = out,
                            .in_count = layer->in_count,
                            .out_count = layer->out_count,
                            .state = layer->state,
                            .plan = layer->plan,
                            .max_threads = threads,
                            .host = state->host,
                            .workspace = layer->workspace_arg != INLAY_NONE ? args[layer->workspace_arg] : NULL,
                            .run = run };

    INLAY_CHECK(layer->in_count <= MAX_INPUTS && layer->out_count <= MAX_OUTPUTS);
    for (uint32_t i = 0; i < layer->in_count; i++) {
        in[i] = layer->in[i];
        in[i].data = layer->in_arg[i] != INLAY_NONE ? args[layer->in_arg[i]] : NULL;
        if (!layer->panelled || (i != IN_W && i != IN_R))
            continue;
        in[i].rank = layer->coded ? 0 : 1;
        if (layer->coded) {
            (void)open_codes(in[i].data, &((const recurrent_plan *)layer->plan)->weights, i, &matrices[i - IN_W]);
            in[i].data = &matrices[i - IN_W];
        }
    }
    for (uint32_t o = 0; o < layer->out_count; o++) {
        out[o] = layer->out[o];
        out[o].data = layer->out_arg[o] != INLAY_NONE ? args[layer->out_arg[o]] : NULL;
    }
    if (layer->projection != NULL) {
        const inlay_status status = project(layer, state, run, args, &projected);

        if (status != INLAY_OK)
            return status;
        in[IN_W].rank = 0;
        in[IN_W].data = &projected;
    }
    return layer->kernel->run(&call);
}

/* Describes a value as a tensor without data, with its dims in `dims`. value INLAY_NONE: the tensor is omitted. */
static kit_tensor tensor_of(const cpu_build *build, uint32_t value, int64_t *dims)
{
    kit_tensor tensor = { .dims = dims };

    if (value == INLAY_NONE)
        return tensor;
    memcpy(dims, build->dims[value], build->ranks[value] * sizeof *dims);
    tensor.rank = build->ranks[value];
    tensor.count = cpu_count(build, value);
    tensor.dtype = build->compiled->values[value].type == ELEMENT_INT32 ? INLAY_INT32 : INLAY_FLOAT;
    return tensor;
}

/* The layout of W or R in panels; false: the sizes do not match the layer. */
static bool describe_panels(const cpu_build *build, const cpu_op *op, uint32_t input, tensor_layout *packed)
{
    const int64_t *w = build->dims[op->in[IN_W]], *r = build->dims[op->in[IN_R]];
    const recurrent_state *prepared = op->recurrent.prepared;
    recurrent_layout layout;
    recurrent_state state;

    if (!recurrent_read_cell(op->row->op_type, prepared->linear_before_reset, &state) || prepared->wide ||
        r[0] != w[0] || w[0] != (prepared->direction == 2 ? 2 : 1) || w[1] != state.gates * r[2] || r[1] != w[1] ||
        !recurrent_compute_layout(&state, w[2], r[2], &layout))
        return false;
    recurrent_panels_layout((const int64_t[]){ input, prepared->linear_before_reset, w[0], r[2], w[2], state.cell },
                            (uint64_t)w[0] * recurrent_panel_bytes(&layout, input), packed);
    return true;
}

static bool is_low_bit(const cpu_build *build, uint32_t value)
{
    const uint32_t k = build->compiled->values[value].constant;

    return k != INLAY_NONE && build->compiled->constants[k].kind == CONSTANT_LOW_BIT;
}

/* Do all rows of a matrix have the scales of its first row? */
static bool vectors_repeat(const coded_panels *panels, const struct panels *p)
{
    for (int64_t b0 = 0; panels->codes.id_step != 0 && b0 < p->blocks; b0 += p->width) {
        const int64_t blocks = p->blocks - b0 < p->width ? p->blocks - b0 : p->width;
        const uint16_t *id = panels->codes.ids + panels->first + b0 * p->depth;

        for (int64_t g = blocks; g < blocks * p->depth; g++)
            if (id[g] != id[g - blocks])
                return false;
    }
    return true;
}

/* Are the panels of input i multiplied directly as codes? For more than a few rows, panels of floats are faster. */
static inlay_status find_codes(cpu_build *build, const struct layer *layer, uint32_t i, bool *out)
{
    const cpu_op *op = build->op;
    const recurrent_state *prepared = op->recurrent.prepared;
    const uint32_t value = op->in[i];
    const cpu_pack *pack;
    recurrent_layout lay;
    recurrent_state state;
    coded_matrix codes;
    inlay_status status;
    tensor_layout plain, packed;

    *out = layer->panelled && build->dims[op->in[IN_X]][prepared->layout != 0 ? 0 : 1] <= CODED_ROWS &&
           describe_panels(build, op, i, &packed);
    if (!*out)
        return INLAY_OK;
    layout_plain(&plain, build->ranks[value], build->dims[value]);
    status = cpu_constant_pack(build, &build->compiled->constants[build->compiled->values[value].constant], &plain,
                               &packed, &pack);
    if (status != INLAY_OK)
        return status;
    *out = recurrent_read_cell(op->row->op_type, prepared->linear_before_reset, &state) &&
           recurrent_compute_layout(&state, build->dims[op->in[IN_W]][2], build->dims[op->in[IN_R]][2], &lay) &&
           open_codes(pack->data, &lay, i, &codes);
    for (int64_t d = 0; *out && d < build->dims[value][0]; d++)
        *out = vectors_repeat(&codes.of[d], i == IN_W ? &lay.panels : &lay.r) &&
               (i == IN_W || lay.bias_at == lay.candidate_at || vectors_repeat(&codes.candidate[d], &lay.candidate));
    return INLAY_OK;
}

/* Reads input i of the layer. */
static inlay_status read_input(cpu_build *build, const struct layer *layer, uint32_t i, cpu_place *out)
{
    const uint32_t value = build->op->in[i];
    tensor_layout plain, packed;

    if (!layer->panelled || (i != IN_W && i != IN_R))
        return cpu_read_plain(build, value, out);
    layout_plain(&plain, build->ranks[value], build->dims[value]);
    (void)describe_panels(build, build->op, i, &packed);
    return (layer->coded ? low_bit_read_pack : cpu_read_constant)(build, value, &plain, &packed, out);
}

static inlay_status plan_layer(const cpu_build *build, struct layer *layer, uint64_t *out_workspace)
{
    kit_plan plan = { .in = layer->in,
                      .out = layer->out,
                      .in_count = layer->in_count,
                      .out_count = layer->out_count,
                      .max_threads = build->instance->threads };
    inlay_status status = layer->kernel->shape(layer->state, &plan, build->diag);

    layer->plan = plan.plan;
    *out_workspace = plan.workspace_bytes;
    return status;
}

/* Takes memory for the projection if terms pay for the rows of this instance. */
static inlay_status plan_projection(cpu_build *build, struct layer *layer, cpu_place *out, bool *out_taken)
{
    const recurrent_plan *plan = layer->plan;
    const recurrent_state *state = layer->state;
    int64_t rows, floats, all;
    sgemm_job job;

    *out_taken = false;
    if (build->op->recurrent.projection == NULL || plan->hidden == 0 ||
        __builtin_mul_overflow(plan->steps, plan->batch, &rows) || rows <= 0 ||
        __builtin_mul_overflow(rows, plan->directions * plan->weights.panels.stored, &floats) ||
        !projects_by_terms(build->state, state, &plan->weights.panels, rows))
        return INLAY_OK;
    layer->workers = build->instance->threads > 0 ? build->instance->threads : 1;
    projection_job(build->state->sgemm, state, plan, build->op->recurrent.projection, 0, build->state->strict,
                   layer->workers, &job);
    if (__builtin_add_overflow(floats, layer->workers * terms_scratch_floats(&job), &all))
        return INLAY_OK;
    layer->projection = build->op->recurrent.projection;
    *out_taken = true;
    return cpu_new_floats(build, all, out);
}

static inlay_status lower_recurrent(cpu_build *build, const cpu_group *group)
{
    const cpu_op *op = build->op;
    cpu_place places[MAX_INPUTS + MAX_OUTPUTS + 2], made[MAX_OUTPUTS];
    const cpu_place *list[MAX_INPUTS + MAX_OUTPUTS + 2];
    bool projects;
    struct layer *layer = calloc(1, sizeof *layer);
    uint64_t workspace;
    uint32_t count = 0; /* of places */
    inlay_status status;
    tensor_layout packed;

    (void)group;
    if (layer == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory for node '%s'", op->name);
    *layer = (struct layer){ .native = { .run = run_layer,
                                         .release = release_layer,
                                         .wrong = "sequence_lens has a value below 0 or above the number of steps" },
                             .kernel = op->recurrent.layer,
                             .state = op->recurrent.prepared,
                             .in_count = op->in_count,
                             .out_count = op->out_count,
                             .workspace_arg = INLAY_NONE };
    layer->panelled =
        is_low_bit(build, op->in[IN_W]) && is_low_bit(build, op->in[IN_R]) && describe_panels(build, op, IN_W, &packed);
    INLAY_TRY(find_codes(build, layer, IN_W, &layer->coded));
    if (layer->coded)
        INLAY_TRY(find_codes(build, layer, IN_R, &layer->coded));
    for (uint32_t i = 0; i < op->in_count; i++) {
        layer->in[i] = tensor_of(build, op->in[i], layer->dims[i]);
        layer->in_arg[i] = INLAY_NONE;
        if (op->in[i] == INLAY_NONE || (op->recurrent.dropped & (1u << i)) != 0 || layer->in[i].count == 0)
            continue;
        INLAY_TRY(read_input(build, layer, i, &places[count]));
        layer->in_arg[i] = count++;
    }
    for (uint32_t o = 0; o < op->out_count; o++) {
        layer->out[o] = tensor_of(build, op->out[o], layer->dims[op->in_count + o]);
        layer->out_arg[o] = INLAY_NONE;
        if (op->out[o] == INLAY_NONE || layer->out[o].count == 0)
            continue;
        layout_plain(&packed, build->ranks[op->out[o]], build->dims[op->out[o]]);
        INLAY_TRY(cpu_result_place(build, op->out[o], &packed, &made[o]));
        places[count] = made[o];
        layer->out_arg[o] = count++;
    }
    INLAY_TRY(plan_layer(build, layer, &workspace));
    if (workspace > 0) {
        const int64_t floats = (int64_t)(workspace / sizeof(float)) + 1;

        layout_plain(&packed, 1, &floats);
        INLAY_TRY(cpu_new_place(build, &packed, &places[count]));
        layer->workspace_arg = count++;
    }
    INLAY_TRY(plan_projection(build, layer, &places[count], &projects));
    if (projects)
        layer->projected_arg = count++;
    INLAY_CHECK(count <= KIT_COUNT(places));
    for (uint32_t i = 0; i < count; i++)
        list[i] = &places[i];
    {
        const struct layer saved = *layer; /* cpu_emit_native() frees the layer on failure */
        cpu_native *native = &layer->native;

        layer = NULL;
        INLAY_TRY(cpu_emit_native(build, native, list, count));
        for (uint32_t o = 0; o < op->out_count; o++)
            if (saved.out_arg[o] != INLAY_NONE)
                INLAY_TRY(cpu_set_place(build, op->out[o], &made[o]));
    }
done:
    if (layer != NULL)
        free(layer->plan);
    free(layer);
    return status;
}

/* What the projection saves of the layer's time. */
static double projection_saving(const cpu_state *state, const kit_node *node, const kit_plan *plan)
{
    const kit_tensor *x = &plan->in[IN_X], *w = &plan->in[IN_W], *r = &plan->in[IN_R];
    recurrent_layout layout;
    recurrent_state cell;
    double saved;

    if (terms_of_cpu() == NULL || state->reproducible || x->count < 0 || x->rank != 3 || w->rank != 3 || r->rank != 3 ||
        w->count <= 0 || r->count <= 0 || !kit_is_constant(node, IN_W) || !kit_is_constant(node, IN_R) ||
        !recurrent_read_cell(kit_op_type(node), false, &cell) ||
        !recurrent_compute_layout(&cell, w->dims[2], r->dims[2], &layout))
        return 0;
    saved = projection_saves_ns(&layout.panels, x->dims[0] * x->dims[1], state->strict, 1);
    return saved > 0 ? saved * (double)w->dims[0] / plan->max_threads : 0;
}

void cpu_recurrent_cost(const cpu_state *state, const inlay_cost_request *request, const inlay_node_info *info,
                        inlay_cost *cost)
{
    const kit_kernel *kernel = kernel_of(info->op_type.data);
    const kit_node node = { .host = state->host, .graph = request->graph, .info = info };
    kit_tensor in[MAX_INPUTS], out[MAX_OUTPUTS];
    const kit_plan plan = { .in = in,
                            .out = out,
                            .in_count = info->input_count,
                            .out_count = info->output_count,
                            .max_threads = request->max_threads > 0 ? request->max_threads : 1 };
    inlay_cost layer_cost = { 0 };

    INLAY_CHECK(kernel != NULL && info->input_count <= MAX_INPUTS && info->output_count <= MAX_OUTPUTS);
    for (uint32_t i = 0; i < info->input_count + info->output_count; i++) {
        const bool is_input = i < info->input_count;
        const uint32_t value = is_input ? info->inputs[i] : info->outputs[i - info->input_count];
        kit_tensor *tensor = is_input ? &in[i] : &out[i - info->input_count];
        const inlay_value_state *value_state =
            value != INLAY_NONE && value < request->value_count
                ? INLAY_AT(inlay_value_state, request->values, request->value_stride, value)
                : NULL;

        *tensor = (kit_tensor){ .count = -1 };
        if (value_state == NULL || value_state->rank == INLAY_RANK_UNKNOWN)
            continue;
        *tensor = (kit_tensor){
            .dims = value_state->dims, .rank = value_state->rank, .dtype = value_state->dtype, .count = 1
        };
        for (uint32_t d = 0; d < value_state->rank; d++)
            if (value_state->dims[d] < 0 || tensor->count < 0 ||
                __builtin_mul_overflow(tensor->count, value_state->dims[d], &tensor->count))
                tensor->count = -1;
    }
    kernel->cost(&node, &plan, &layer_cost);
    layer_cost.ns -= projection_saving(state, &node, &plan);
    cost->ns += layer_cost.ns > 0 ? layer_cost.ns : UNKNOWN_NS;
    cost->flops += layer_cost.flops;
    cost->bytes_read += layer_cost.bytes_read;
    cost->bytes_written += layer_cost.bytes_written;
}

const cpu_family cpu_recurrent = {
    .kind = CPU_FAMILY_RECURRENT, .name = "recurrent layer", .parse = parse_recurrent, .lower = lower_recurrent
};
