/* Resize-10..19 and Upsample-7..9, in the layout that the input has: blocks of channels and channels last keep the
 * elements of a place together, which then go through weights computed once for each. The loops are those of all our
 * providers (common/resize_rows.h): oneDNN's resampling knows two of ONNX's seven ways to place a pixel. */
#include "region/build.h"
#include "resize_rows.h"
#include <math.h>

/* An input that is there; an empty tensor stands for none. */
static const inlay_value_info *input_of(const kit_node *node, uint32_t i)
{
    const inlay_value_info *v = kit_input(node, i);
    bool empty = v != NULL && v->rank == 1 && v->dims[0].kind == INLAY_DIM_FIXED && v->dims[0].value == 0;

    return empty ? NULL : v;
}

static bool read_scales(const kit_node *node, uint32_t rank, rg_op *op, kit_refusal *why)
{
    bool upsample = node->info->op_type.data[0] == 'U', old = upsample || node->info->since_version < 11;
    const inlay_attr_info *given = kit_attr(node->info, "scales"), *axes = kit_attr(node->info, "axes");
    const inlay_value_info *input = upsample && node->info->since_version < 9 ? NULL : input_of(node, old ? 1 : 2);
    uint32_t count = 0;
    float list[RG_MAX_RANK];

    if (!old && input_of(node, 3) != NULL)
        return true; /* sizes: the output says it all */
    if (upsample && node->info->since_version < 9) {
        if (given == NULL || given->kind != INLAY_ATTR_FLOATS || given->count != rank)
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "scales do not fit the input");
        memcpy(list, given->floats, rank * sizeof *list);
        count = rank;
    } else {
        if (input == NULL || input->data == NULL || input->dtype != INLAY_FLOAT ||
            input->data_bytes > RG_MAX_RANK * sizeof *list)
            return kit_refuse(why, INLAY_REFUSE_SHAPE, "make the scales a constant, or give sizes",
                              "the scales are not constant");
        count = (uint32_t)(input->data_bytes / sizeof *list);
        memcpy(list, input->data, count * sizeof *list);
    }
    if (count != (axes != NULL ? axes->count : rank))
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "there is not one scale for each axis");
    op->resize.scaled = true;
    for (uint32_t d = 0; d < rank; d++)
        op->resize.scales[d] = 1;
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = i;

        if (axes != NULL && (axes->kind != INLAY_ATTR_INTS || !rg_axis(axes->ints[i], rank, &axis)))
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "an axis outside the tensor");
        if (!(list[i] > 0) || !isfinite(list[i]))
            return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, NULL, "a scale is not positive");
        op->resize.scales[axis] = list[i];
    }
    return true;
}

static bool parse(const kit_node *node, rg_op *op, kit_refusal *why)
{
    const inlay_value_info *x = kit_input(node, 0);

    if (!rg_known_rank(x, 2, RG_MAX_RANK, "input 0", why) ||
        !resize_rule_read(node->info, false, &op->resize.rule, why))
        return false;
    if (op->resize.rule.coordinates == RESIZE_TF_CROP_AND_RESIZE)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use another coordinate_transformation_mode",
                          "a region that is cut out");
    if (op->resize.rule.policy != RESIZE_STRETCH)
        return kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "use keep_aspect_ratio_policy stretch",
                          "sizes that follow from the aspect ratio");
    return read_scales(node, x->rank, op, why);
}

/* ------------------------------------------------------------------ the loop */

typedef struct resize_loop {
    rg_native native;
    bool copies;      /* nearest */
    uint32_t elem;    /* bytes that are copied together, for nearest */
    resize_plan plan; /* tables behind the struct */
} resize_loop;

struct call {
    const resize_loop *l;
    const float *x;
    float *y;
    char *scratch;
};

enum { GRAIN = 1 << 14 };

static inlay_status run_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct call *c = user;
    const resize_plan *p = &c->l->plan;

    if (c->l->copies)
        resize_copy_rows(p, c->l->elem, c->x, c->y, NULL, begin, end);
    else
        resize_rows_of(INLAY_FLOAT)(p, c->x, c->y, begin, end, c->scratch + worker * p->scratch_bytes);
    return INLAY_OK;
}

static inlay_status run_loop(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const resize_loop *l = (const resize_loop *)(const void *)native;
    const resize_axis *last = &l->plan.axes[l->plan.rank - 1];
    struct call c = { l, args[0], args[1], l->copies ? NULL : args[2] };
    int64_t grain = GRAIN / (last->out * l->plan.inner + 1) + 1;

    if (threads <= 1 || l->plan.rows <= grain)
        return run_some(&c, 0, l->plan.rows, 0);
    return state->host->parallel_for(state->host->ctx, run, l->plan.rows, grain, run_some, &c);
}

/* ------------------------------------------------------------------ lowering */

static resize_axis axis_of(const rg_build *b, uint32_t d)
{
    const rg_op *op = b->op;
    int64_t in = b->dims[op->in[0]][d], out = b->dims[op->out[0]][d];
    double scale = op->resize.scaled ? (double)op->resize.scales[d] : (double)out / (double)in;

    return (resize_axis){
        .in = in, .out = out, .scale = scale, .exact = !op->resize.scaled || (scale == 1 && in == out), .roi_end = 1
    };
}

static bool stays(const resize_axis *a)
{
    return a->in == a->out && a->exact;
}

/* Layouts of input and output in which batches and channels may be left alone, for x as it lies or nearly so; false:
 * row-major is the one for both. */
static bool image_layouts(const rg_build *b, const rg_md *x, rg_md *out_x, rg_md *out_y)
{
    uint32_t from = b->op->in[0], to = b->op->out[0], rank = b->ranks[to];
    resize_axis batch = axis_of(b, 0), channels = axis_of(b, 1);

    rg_md_plain(out_x, rank, b->dims[from]);
    rg_md_plain(out_y, rank, b->dims[to]);
    if (rank < 3 || rank > 5 || !stays(&batch) || !stays(&channels) || rg_md_is_plain(x) || x->kind != RG_BLOCKED)
        return false;
    if (rg_md_is_blocked(x))
        return rg_md_same_blocks(x, rank, b->dims[from], out_x) && rg_md_same_blocks(x, rank, b->dims[to], out_y);
    if (x->strides[1] != 1 || x->dims[1] < 2)
        return false;
    rg_md_channels_last(out_x, rank, b->dims[from]);
    rg_md_channels_last(out_y, rank, b->dims[to]);
    return true;
}

/* The axes as the loop sees them in such a layout of x. */
static uint32_t axes_along(const rg_build *b, const rg_md *x, bool image, resize_axis *axes, int64_t *out_inner)
{
    uint32_t rank = b->ranks[b->op->out[0]], count = 0;
    const rg_md *blocks = x;
    int64_t outer = x->dims[0];

    *out_inner = 1;
    if (!image) {
        for (; count < rank; count++)
            axes[count] = axis_of(b, count);
        return count;
    }
    *out_inner = rg_md_is_blocked(x) ? blocks->inner_blks[0] : x->dims[1];
    if (rg_md_is_blocked(x))
        outer *= x->padded_dims[1] / blocks->inner_blks[0];
    axes[count++] = (resize_axis){ .in = outer, .out = outer, .scale = 1, .exact = true, .roi_end = 1 };
    for (uint32_t d = 2; d < rank; d++)
        axes[count++] = axis_of(b, d);
    return count;
}

static inlay_status make_loop(const rg_build *b, const resize_axis *axes, uint32_t rank, int64_t inner,
                              resize_loop **out)
{
    resize_rule rule = b->op->resize.rule;
    resize_plan p = { 0 };

    *out = NULL;
    for (uint32_t d = 0; d < rank; d++)
        if (axes[d].in > INT32_MAX || axes[d].out > INT32_MAX)
            return inlay_fail(b->diag, INLAY_LIMIT_EXCEEDED, "node '%s': an axis of more than 2^31 - 1", b->op->name);
    resize_plan_axes(&p, &rule, axes, rank, inner);
    if (p.rank == 0)
        return INLAY_OK;
    if (!resize_plan_count(&p, &rule))
        return inlay_fail(b->diag, INLAY_LIMIT_EXCEEDED, "node '%s': the filter is too large", b->op->name);
    *out = malloc(sizeof **out + p.table_bytes);
    if (*out == NULL)
        return inlay_fail(b->diag, INLAY_OUT_OF_MEMORY, "no memory for the tables of node '%s'", b->op->name);
    **out = (resize_loop){
        .native.run = run_loop, .copies = rule.mode == RESIZE_NEAREST, .elem = sizeof(float), .plan = p
    };
    resize_plan_fill(&(*out)->plan, &rule, *out + 1);
    return INLAY_OK;
}

static inlay_status lower(rg_build *b, const rg_group *group)
{
    const rg_op *op = b->op;
    uint32_t count;
    int64_t scratch_count, inner;
    resize_axis axes[RG_MAX_RANK];
    const rg_place *places[3];
    rg_place x, y, scratch;
    resize_loop *loop = NULL;
    rg_md x_md, y_md;
    inlay_status status;
    bool image;

    INLAY_TRY(rg_read(b, op->in[0], &x));
    if (rg_count(b, op->in[0]) == 0)
        return inlay_fail(b->diag, INLAY_SHAPE_MISMATCH, "node '%s': nothing to make an output from", op->name);
    image = image_layouts(b, &x.md, &x_md, &y_md);
    INLAY_TRY(rg_read_as(b, op->in[0], &x_md, &x));
    count = axes_along(b, &x_md, image, axes, &inner);
    INLAY_TRY(make_loop(b, axes, count, inner, &loop));
    if (loop == NULL) { /* nothing changes */
        x.md = y_md;
        return rg_set_place(b, group->out, &x);
    }
    INLAY_TRY(rg_result_place(b, group->out, &y_md, &y));
    places[0] = &x;
    places[1] = &y;
    if (!loop->copies) {
        scratch_count = (int64_t)(loop->plan.scratch_bytes / sizeof(float) * b->instance->threads);
        INLAY_TRY(rg_new_floats(b, scratch_count, &scratch));
        places[2] = &scratch;
    }
    status = rg_emit_native(b, &loop->native, places, loop->copies ? 2 : 3);
    loop = NULL; /* the step's, or freed */
    if (status == INLAY_OK)
        status = rg_set_place(b, group->out, &y);
done:
    free(loop);
    return status;
}

const rg_family rg_resize = { "resize", parse, lower };
