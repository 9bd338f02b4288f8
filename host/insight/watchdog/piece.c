#include "watchdog/piece.h"
#include "base/among.h"
#include "base/order.h"
#include "inlay/check.h"
#include "plan/program/fold_node.h"
#include "watchdog/floats.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool piece_values_init(piece_values *values, const struct graph *graph)
{
    *values = (piece_values){ .infos = malloc(((size_t)graph->value_count + 1) * sizeof *values->infos),
                              .owned = calloc((size_t)graph->value_count + 1, 2 * sizeof(void *)),
                              .marks = calloc((size_t)graph->value_count + 1, 1),
                              .count = graph->value_count };
    if (values->infos == NULL || values->owned == NULL || values->marks == NULL)
        return false;
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const inlay_value_info *info = &values->infos[i];

        values->infos[i] = graph->values[i].info;
        if (info->data != NULL && graph_constant_may_set_shapes(info)) /* weights are ordinary numbers */
            values->marks[i] = floats_marks(info->dtype, info->data, graph_constant_count(info));
    }
    return true;
}

/* owned[value] is the elements, owned[count + value] the dims. */
void piece_values_deinit(piece_values *values)
{
    for (uint32_t i = 0; values->owned != NULL && i < 2 * values->count; i++)
        free(values->owned[i]);
    free(values->owned);
    free(values->infos);
    free(values->marks);
    *values = (piece_values){ 0 };
}

bool piece_values_set(piece_values *values, uint32_t value, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                      const void *data, uint64_t bytes)
{
    inlay_value_info *info = &values->infos[value];
    inlay_dim *fixed = calloc((size_t)rank + 1, sizeof *fixed);

    INLAY_CHECK(value < values->count);
    if (fixed == NULL)
        return false;
    for (uint32_t d = 0; d < rank; d++)
        fixed[d] = (inlay_dim){ .value = dims[d], .kind = INLAY_DIM_FIXED };
    free(values->owned[values->count + value]);
    values->owned[values->count + value] = fixed;
    info->dtype = dtype;
    info->rank = rank;
    info->dims = fixed;
    info->data = data;
    info->data_bytes = bytes;
    info->elements = NULL;
    info->element_count = 0;
    values->marks[value] = floats_marks(dtype, data, graph_constant_count(info));
    return true;
}

/* Copies a computed tensor. */
static bool keep(piece_values *values, uint32_t value, const inlay_tensor_view *view)
{
    void *copy = malloc(view->bytes > 0 ? (size_t)view->bytes : 1);

    if (copy == NULL)
        return false;
    if (view->bytes > 0)
        memcpy(copy, view->data, (size_t)view->bytes);
    free(values->owned[value]);
    values->owned[value] = copy;
    values->bytes += view->bytes;
    return piece_values_set(values, value, view->dtype, view->rank, view->dims, copy, view->bytes);
}

/* Masks are added to scores: with those, large negative numbers have no effect but 0 after Softmax. */
static bool takes_masks(const graph_node *node)
{
    return is_among(node->info.op_type.data, "Add Softmax LogSoftmax Attention Cast");
}

bool piece_may_overflow(const struct piece *piece, const uint8_t *inexact, const piece_values *values)
{
    for (uint32_t k = 0; k < piece->node_count; k++) {
        const graph_node *node = piece->graph->nodes[piece->nodes[k]];
        const uint8_t bad = takes_masks(node) ? FLOATS_LARGE : FLOATS_LARGE | FLOATS_NEGATIVE;
        bool rounds = false, marked = false;

        for (uint32_t i = 0; i < node->info.input_count + node->info.output_count; i++) {
            const bool in = i < node->info.input_count;
            const uint32_t value = in ? node->info.inputs[i] : node->info.outputs[i - node->info.input_count];

            if (value == INLAY_NONE)
                continue;
            rounds |= !in && inexact[value] == PIECE_ROUNDS;
            marked |= (values->marks[value] & bad) != 0;
        }
        if (rounds && marked)
            return true;
    }
    return false;
}

/* Noise.
 *
 * A kernel that is right computes the exact result for slightly different inputs, and rounds it. So each float input of
 * a node that rounds is changed by NOISE units of its last place, with random signs, and so is each result. The error
 * of a sum also grows with the magnitude of its terms, which the same node computes from the absolute values of its
 * inputs. */

enum { NOISE = 16, NOISE_HALF = 2, SUM_UNITS = 4, RESULT_UNITS = 8, STEP_SHARE = 8 };

static bool is_sum(const graph_node *node)
{
    return is_among(node->info.op_type.data,
                    "Conv ConvTranspose MatMul Gemm Einsum ReduceSum ReduceMean ReduceL1 ReduceL2 ReduceSumSquare "
                    "AveragePool GlobalAveragePool CumSum DFT STFT Sum Resize");
}

static double unit_of(const piece_machine *machine, inlay_dtype dtype)
{
    const double unit = floats_unit(dtype);

    return machine->reduced && unit < 0x1p-9 ? 0x1p-9 * NOISE_HALF : unit * (unit > 0x1p-16 ? NOISE_HALF : NOISE);
}

/* The inputs of a node that is computed with elements other than those of `values`. */
typedef struct changed_inputs {
    inlay_value_info *before; /* [input_count] */
    struct arena arena;
    program_folder folder; /* caches nothing beyond these inputs, whose addresses are used again */
} changed_inputs;

/* Replaces the float inputs of the node by their magnitudes, or changes them by noise. */
static bool change_inputs(const piece_machine *machine, const graph_node *node, piece_values *values, bool magnitudes,
                          uint64_t *seed, changed_inputs *out)
{
    const uint32_t count = node->info.input_count;

    *out = (changed_inputs){ .folder.env = machine->folder->env };
    out->before = arena_array(&out->arena, (size_t)count + 1, sizeof *out->before);
    if (out->before == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (node->info.inputs[i] != INLAY_NONE)
            out->before[i] = values->infos[node->info.inputs[i]];
    for (uint32_t i = 0; i < count; i++) {
        inlay_value_info *info = node->info.inputs[i] != INLAY_NONE ? &values->infos[node->info.inputs[i]] : NULL;
        const bool constant = info != NULL && (info->flags & INLAY_VALUE_CONSTANT) != 0;
        void *copy;

        /* Small constants may be sizes or limits. An input that the node reads twice is changed once. */
        if (info == NULL || info->data == NULL || info->data != out->before[i].data || floats_unit(info->dtype) == 0 ||
            (constant && !magnitudes && graph_constant_may_set_shapes(info)) ||
            (i > 0 && is_among(node->info.op_type.data, "Resize Upsample Range")))
            continue;
        copy = arena_copy(&out->arena, info->data, (size_t)info->data_bytes);
        if (copy == NULL)
            return false;
        if (magnitudes)
            floats_make_absolute(info->dtype, copy, graph_constant_count(info));
        else
            floats_add_noise(info->dtype, copy, graph_constant_count(info), NULL, unit_of(machine, info->dtype), 0,
                             seed);
        info->data = copy;
    }
    return true;
}

static void restore_inputs(const graph_node *node, piece_values *values, changed_inputs *changed)
{
    for (uint32_t i = 0; changed->before != NULL && i < node->info.input_count; i++)
        if (node->info.inputs[i] != INLAY_NONE)
            values->infos[node->info.inputs[i]] = changed->before[i];
    program_folder_deinit(&changed->folder);
    arena_deinit(&changed->arena);
}

/* Infers the outputs of the node from the sizes of its inputs. */
static inlay_status infer(const struct piece *piece, const graph_node *node, piece_values *values, struct arena *arena,
                          inlay_diag *diag)
{
    const inlay_node_info *info = &node->info;
    const inlay_value_info **in = arena_array(arena, (size_t)info->input_count + 1, sizeof *in);
    inlay_value_info **out = arena_array(arena, (size_t)info->output_count + 1, sizeof *out);

    if (in == NULL || out == NULL)
        return INLAY_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < info->input_count; i++)
        in[i] = info->inputs[i] == INLAY_NONE ? NULL : &values->infos[info->inputs[i]];
    for (uint32_t i = 0; i < info->output_count; i++)
        out[i] = info->outputs[i] == INLAY_NONE ? NULL : &values->infos[info->outputs[i]];
    return graph_infer_node(piece->graph->model, node, in, out, arena, diag);
}

/* folder: that of changed inputs, or the machine's. */
static inlay_status run_node(const piece_machine *machine, program_folder *folder, const struct piece *piece,
                             const graph_node *node, piece_values *values, struct arena *arena,
                             inlay_tensor_view **out_views, inlay_diag *diag)
{
    const node_run run = { .folder = folder,
                           .provider = machine->provider,
                           .graph = piece->graph,
                           .node = node,
                           .values = values->infos,
                           .dying = INLAY_NONE,
                           .max_threads = 1,
                           .max_bytes = machine->max_bytes - values->bytes,
                           .cancel = machine->cancel,
                           .arena = arena };
    inlay_status status = infer(piece, node, values, arena, diag);

    *out_views = arena_array(arena, (size_t)node->info.output_count + 1, sizeof **out_views);
    if (*out_views == NULL)
        return INLAY_OUT_OF_MEMORY;
    return status == INLAY_OK ? program_run_node(&run, *out_views, diag) : status;
}

/* About the number of terms of each sum of a node that computes sums, of products if it has two float inputs. */
static double terms_of(const graph_node *node, const piece_values *values, int64_t result_count)
{
    double count[2] = { 0 };

    for (uint32_t i = 0; i < 2 && i < node->info.input_count; i++)
        if (node->info.inputs[i] != INLAY_NONE && floats_unit(values->infos[node->info.inputs[i]].dtype) != 0)
            count[i] = (double)graph_constant_count(&values->infos[node->info.inputs[i]]);
    if (result_count <= 0)
        return 1;
    return fmax(1, count[1] > 0 ? sqrt(count[0] * count[1] / (double)result_count) : count[0] / (double)result_count);
}

/* Adds noise to the results of a node that rounds. */
static inlay_status add_noise(const piece_machine *machine, const struct piece *piece, const graph_node *node,
                              piece_values *values, inlay_tensor_view *views, uint64_t *seed, inlay_diag *diag)
{
    struct arena arena = { 0 };
    changed_inputs changed = { 0 };
    inlay_tensor_view *magnitudes = NULL;
    inlay_status status = INLAY_OK;

    if (is_sum(node)) {
        if (!change_inputs(machine, node, values, true, seed, &changed))
            status = INLAY_OUT_OF_MEMORY;
        if (status == INLAY_OK)
            status = run_node(machine, &changed.folder, piece, node, values, &arena, &magnitudes, diag);
        restore_inputs(node, values, &changed);
    }
    for (uint32_t i = 0, k = 0; status == INLAY_OK && i < node->info.output_count; i++) {
        inlay_tensor_view *view = &views[k];
        const int64_t count = node->info.outputs[i] != INLAY_NONE ? floats_view_count(view) : 0;
        const bool leaves = is_listed(piece->outputs, piece->output_count, node->info.outputs[i]);
        const double unit = unit_of(machine, view->dtype);
        const bool sums = magnitudes != NULL && magnitudes[k].bytes == view->bytes;

        if (node->info.outputs[i] == INLAY_NONE)
            continue;
        if (floats_unit(view->dtype) != 0)
            floats_add_noise(view->dtype, (void *)(uintptr_t)view->data, count, sums ? magnitudes[k].data : NULL,
                             unit * (sums ? sqrt(terms_of(node, values, count)) : RESULT_UNITS), unit * SUM_UNITS,
                             seed);
        else if (!leaves)
            floats_add_steps(view->dtype, (void *)(uintptr_t)view->data, count, STEP_SHARE, seed);
        k++;
    }
    arena_deinit(&arena);
    return status;
}

static inlay_status compute_node(const piece_machine *machine, const struct piece *piece, const graph_node *node,
                                 const piece_noise *noise, uint64_t *seed, piece_values *values, inlay_diag *diag)
{
    struct arena arena = { 0 };
    changed_inputs changed = { 0 };
    inlay_tensor_view *views = NULL;
    inlay_status status = INLAY_OK;
    bool rounds = false;

    for (uint32_t i = 0; noise != NULL && i < node->info.output_count; i++)
        rounds |= node->info.outputs[i] != INLAY_NONE && noise->inexact[node->info.outputs[i]] == PIECE_ROUNDS;
    if (rounds && !change_inputs(machine, node, values, false, seed, &changed))
        status = INLAY_OUT_OF_MEMORY;
    if (status == INLAY_OK)
        status =
            run_node(machine, rounds ? &changed.folder : machine->folder, piece, node, values, &arena, &views, diag);
    if (rounds)
        restore_inputs(node, values, &changed);
    if (status == INLAY_OK && rounds)
        status = add_noise(machine, piece, node, values, views, seed, diag);
    for (uint32_t i = 0, k = 0; i < node->info.output_count && status == INLAY_OK; i++)
        if (node->info.outputs[i] != INLAY_NONE && !keep(values, node->info.outputs[i], &views[k++]))
            status = INLAY_OUT_OF_MEMORY;
    arena_deinit(&arena);
    return status;
}

inlay_status piece_compute(const piece_machine *machine, const struct piece *piece, const piece_noise *noise,
                           piece_values *values, inlay_diag *diag)
{
    uint64_t seed = noise != NULL ? noise->seed : 0;
    inlay_status status = INLAY_OK;

    for (uint32_t k = 0; k < piece->node_count && status == INLAY_OK; k++) {
        const graph_node *node = piece->graph->nodes[piece->nodes[k]];

        status = __atomic_load_n(machine->cancel, __ATOMIC_RELAXED) != 0
                     ? INLAY_CANCELLED
                     : compute_node(machine, piece, node, noise, &seed, values, diag);
        if (status != INLAY_OK)
            (void)snprintf(diag->node, sizeof diag->node, "%s", node->info.name.data);
    }
    return status;
}
