/* Option pack_bytes: which convolutions may pack their weights for Winograd's algorithm, which takes four times the
 * weights, or 1.8 times with 4 points. The weights that save the most time per additional byte are chosen first, until
 * the region's part of the limit is used. The parts depend on the graph only, so that the order in which regions are
 * compiled, and the number of threads, do not change the kernels. */
#include "cpu/kernels/table.h"
#include "inlay/execution.h"
#include "inlay/graph_view.h"
#include "cpu/convolution/tiles.h"
#include "cpu/region/window.h"
#include "cpu/weights/packs.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(kernel_pack_share, "cpu_conv");
OPTIONAL_WITH(kernel_limit_packs, "cpu_conv");

#define MOST_FACTOR 1000.0 /* of option pack_bytes: larger values are bytes */
/* By default, packs may exceed the weights by this, so that small models are not slowed down. */
static const double DEFAULT_EXCESS = 40 << 20;
enum { OTHER, POINTS_4, POINTS_6, CHOICES }; /* how weights are packed; OTHER: for another algorithm */

static const uint32_t points_of[] = { [POINTS_4] = 4, [POINTS_6] = 6 };

/* The weights of one or several convolutions. */
typedef struct window_weights {
    double ns[CHOICES]; /* time of the convolutions, if their weights are packed like this */
    double bytes[CHOICES];
    uint32_t present; /* bits 1 << points: packs that exist */
    uint32_t chosen;
    bool used, mixed[CHOICES]; /* mixed: some of the convolutions use another algorithm, so OTHER is needed, too */
} window_weights;

/* Bytes of a float constant of 3x3 windows; 0: another constant. */
static double window_bytes(const inlay_graph *graph, uint32_t value)
{
    const inlay_value_info *info = inlay_graph_value(graph, value);

    if (info == NULL || (info->flags & INLAY_VALUE_CONSTANT) == 0 || info->rank != 4 ||
        (info->dtype != INLAY_FLOAT && info->dtype != INLAY_FLOAT16 && info->dtype != INLAY_BFLOAT16) ||
        info->dims[2].value != 3 || info->dims[3].value != 3 || info->dims[0].value < 16 || info->dims[1].value < 16)
        return 0;
    return (double)(info->dims[0].value * info->dims[1].value * 9) * sizeof(float);
}

uint64_t kernel_pack_share(const inlay_compiled *compiled, const inlay_graph *graph)
{
    const cpu_state *state = compiled->state;
    const double constants = (double)graph->constant_bytes;
    const double limit = state->pack_bytes > MOST_FACTOR ? state->pack_bytes : state->pack_bytes * constants;
    double excess = limit - constants, all = 0, own = 0, share;

    for (uint32_t value = 0; value < graph->value_count; value++)
        all += window_bytes(graph, value);
    for (uint32_t i = 0; i < compiled->constant_count; i++)
        own += window_bytes(graph, compiled->constants[i].value);
    if (!state->pack_bytes_set && excess < DEFAULT_EXCESS)
        excess = DEFAULT_EXCESS;
    if (own <= 0 || excess <= 0)
        return 0;
    share = excess * (own / all);
    return share < (double)INT64_MAX ? (uint64_t)share : INT64_MAX;
}

static bool is_present(const window_weights *weights, uint32_t choice)
{
    return (weights->present & 1u << points_of[choice]) != 0;
}

/* Adds the times of the convolution that is being lowered. */
static void add_times(const kernel_choice *choice, window_weights *weights)
{
    double ns[CHOICES];
    bool known[CHOICES] = { false };

    for (uint32_t i = 0; i < choice->count; i++) {
        const int64_t points = kernel_table[choice->kernel[i]].points;
        const uint32_t c = points == 6 ? POINTS_6 : points == 4 ? POINTS_4 : OTHER;

        if (!known[c] || choice->ns[i] < ns[c])
            ns[c] = choice->ns[i];
        known[c] = true;
    }
    if (!known[OTHER])
        return;
    for (uint32_t c = POINTS_4; c < CHOICES; c++)
        if (is_present(weights, c) && known[c] && ns[c] < ns[OTHER])
            ns[OTHER] = ns[c];
    weights->ns[OTHER] += ns[OTHER];
    for (uint32_t c = POINTS_4; c < CHOICES; c++) {
        const bool faster = known[c] && ns[c] < ns[OTHER];

        weights->ns[c] += faster ? ns[c] : ns[OTHER];
        weights->mixed[c] |= !faster;
    }
    weights->used = true;
}

/* Describes the weights of the convolution that is being lowered. */
static bool describe_weights(const cpu_build *build, const kernel_layer *layer, window_weights *weights)
{
    const cpu_constant *constant = &build->compiled->constants[build->compiled->values[build->op->in[1]].constant];

    if (weights->used)
        return true;
    weights->bytes[OTHER] = (double)constant->bytes;
    for (uint32_t c = POINTS_4; c < CHOICES; c++) {
        tensor_layout layout;

        if (!tiles_winograd_layout(points_of[c], layer->window.in, layer->window.out, &layout))
            return false;
        weights->bytes[c] = (double)layout_bytes(&layout);
        if (constant->data == NULL && !build->state->fast) /* a copy is made for the direct sums */
            weights->bytes[c] += (double)constant->bytes;
        weights->present |= cpu_constant_has_pack(constant, &layout) ? 1u << points_of[c] : 0;
    }
    return true;
}

static inlay_status collect(cpu_build *build, window_weights *list)
{
    inlay_status status = INLAY_OK;

    for (uint32_t last = 0; last < build->compiled->op_count; last++) {
        const cpu_group *group = &build->groups[last];
        const cpu_op *op = group->op != INLAY_NONE ? &build->compiled->ops[group->op] : NULL;
        const char *why = NULL;
        kernel_layer layer = { .input.buffer = INLAY_NONE };
        kernel_choice choice;
        uint32_t constant;

        if (op == NULL || op->row->family->kind != CPU_FAMILY_CONV)
            continue;
        constant = build->compiled->values[op->in[1]].constant;
        build->op = op;
        if (constant == INLAY_NONE || kernel_weights_are_low_bit(build) || cpu_count(build, group->out) == 0)
            continue;
        kernel_conv_shape_of(build, op, &layer.window);
        layout_channels_last(&layer.input.layout, build->ranks[op->in[0]], build->dims[op->in[0]]);
        if (!kernel_table[KERNEL_WINOGRAD_2].runs(build, group, &layer, &why)) {
            list[constant].mixed[POINTS_4] = list[constant].mixed[POINTS_6] = true;
            continue;
        }
        if (!describe_weights(build, &layer, &list[constant]))
            continue;
        cpu_window_weights(build, op->in[1], &layer.weights);
        INLAY_TRY(kernel_rank(build, group, &layer, &choice));
        add_times(&choice, &list[constant]);
    }
done:
    return status;
}

static double bytes_of(const window_weights *weights, uint32_t choice)
{
    return weights->bytes[choice] + (weights->mixed[choice] ? weights->bytes[OTHER] : 0);
}

/* The step of the most time per byte that fits into `left` bytes: weights list[*out_at] packed as *out_choice. false:
 * none saves enough. */
static bool find_step(const window_weights *list, uint32_t count, double left, uint32_t *out_at, uint32_t *out_choice)
{
    double best = KERNEL_LEAST_SAVED;
    bool found = false;

    for (uint32_t i = 0; i < count; i++)
        for (uint32_t c = list[i].chosen + 1u; list[i].used && c < CHOICES; c++) {
            const double more = bytes_of(&list[i], c) - bytes_of(&list[i], list[i].chosen),
                         saved = list[i].ns[list[i].chosen] - list[i].ns[c];

            if (is_present(&list[i], c) || more > left || saved <= best * more)
                continue;
            best = saved / more;
            found = true;
            *out_at = i;
            *out_choice = c;
        }
    return found;
}

inlay_status kernel_limit_packs(cpu_build *build)
{
    inlay_compiled *compiled = build->compiled;
    double left = (double)compiled->pack_share;
    window_weights *list;
    inlay_status status = INLAY_OK;
    uint32_t at, choice;

    if (!build->state->winograd || build->state->reproducible || compiled->pack_share == INT64_MAX)
        return INLAY_OK;
    list = cpu_scratch_take_zeroed(build->scratch, compiled->constant_count + 1u, sizeof *list);
    if (list == NULL)
        return inlay_fail(build->diag, INLAY_OUT_OF_MEMORY, "no memory to choose the kernels of a region");
    INLAY_TRY(collect(build, list));
    for (uint32_t i = 0; i < compiled->constant_count; i++)
        left -= (double)cpu_constant_excess(&compiled->constants[i]);
    while (find_step(list, compiled->constant_count, left, &at, &choice)) {
        left -= bytes_of(&list[at], choice) - bytes_of(&list[at], list[at].chosen);
        list[at].chosen = choice;
    }
    for (uint32_t i = 0; i < compiled->constant_count; i++)
        compiled->constants[i].refused_points =
            list[i].used ? ~(list[i].present | (list[i].chosen != OTHER ? 1u << points_of[list[i].chosen] : 0)) : 0;
done:
    return status;
}
