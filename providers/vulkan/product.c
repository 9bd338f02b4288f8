/* Products of matrices; convolutions (conv.c) are the same skeleton, shaders/product.comp. */
#include "region.h"

/* ------------------------------------------------------------------ tiles */

enum { MOST_TILE_ROWS = 12 };

/* Columns that an invocation has, and invocations that share a strip of rows. */
static uint32_t columns_each(const gpu_facts *f)
{
    return f->is_cpu ? 2 : 4;
}

static uint32_t lanes_of(const gpu_facts *f)
{
    return f->shuffles ? f->subgroup : f->is_cpu ? 8 : 32;
}

/* What a subgroup reads of A is loaded once. Loops whose ends the compiler does not know may load beyond them. */
bool vr_scalar_loads(const vr_build *b)
{
    return b->fixed && b->g->facts.scalar_loads;
}

static bool shuffles(const vr_build *b)
{
    return b->g->facts.shuffles && !vr_scalar_loads(b);
}

uint32_t vr_panel(const gpu_facts *f)
{
    return columns_each(f) * lanes_of(f);
}

/* Rows of a strip: the last strip of a line overlaps the one before, which is lost; a strip costs some two rows itself.
 */
static uint32_t rows_each(const vr_build *b, int64_t line)
{
    const gpu_facts *f = &b->g->facts;
    const uint32_t most = shuffles(b) ? f->subgroup : f->is_cpu ? MOST_TILE_ROWS : 8;
    uint32_t best = 1;
    double best_cost = 1e300;

    for (uint32_t r = 1; r <= most && r <= line; r++) {
        const double cost = (double)((line + r - 1) / r) * (r + 2);

        if (cost <= best_cost) {
            best = r;
            best_cost = cost;
        }
    }
    return best;
}

/* ------------------------------------------------------------------ the dispatch */

vr_product vr_product_of(int64_t rows, int64_t k, int64_t n)
{
    return (vr_product){ .line = rows,
                         .lines = 1,
                         .n = n,
                         .k = k,
                         .taps = 1,
                         .a_row = k,
                         .a_step = 1,
                         .b_step = n,
                         .b_column = 1,
                         .out_row = n,
                         .out_column = 1,
                         .batch = { 1, 1, 1 },
                         .alpha = 1 };
}

void vr_product_batches(vr_product *x, const int64_t batch[3])
{
    int64_t step = x->line * x->lines * x->n;

    for (uint32_t i = 3; i-- > 0; step *= batch[i]) {
        x->batch[i] = batch[i];
        x->out_batch[i] = step;
    }
}

/* B is a constant in panels. */
static void use_panels(vr_build *b, vr_product *x, const vr_constant *k)
{
    const int64_t width = vr_panel(&b->g->facts), panels = (k->panels.columns + width - 1) / width;

    x->packed = true;
    x->b.bytes = k->bytes;
    x->b.place = vr_constant_place(b, k);
    x->b_step = width;
    x->b_column = 1;
    x->b_tap = k->panels.k * width;
    x->b_panel = k->panels.taps * x->b_tap;
    x->b_batch[2] = k->panels.groups > 1 ? panels * x->b_panel : 0;
}

static uint32_t how_to(const vr_build *b, const vr_product *x, const vr_program *p, uint32_t width)
{
    const gpu_facts *f = &b->g->facts;
    const bool by_lane =
        vr_scalar_loads(b) && x->b.dtype == INLAY_FLOAT && x->b_column == 1 && (x->packed || x->n >= width);

    return (x->windows ? PRODUCT_WINDOWS : 0) | (x->padded ? PRODUCT_PADDED : 0) | (x->packed ? PRODUCT_PACKED : 0) |
           (by_lane ? PRODUCT_LANE_BY_LANE : 0) | (f->shuffles ? PRODUCT_SUBGROUPS : 0) |
           (x->sibling_count > 0 ? PRODUCT_SIBLINGS : 0) | (x->b.bytes < x->a.bytes ? PRODUCT_STRIPS_LAST : 0) |
           (x->n % width != 0 && (x->packed || !by_lane) ? PRODUCT_TAIL : 0) |
           (p->slot_count > 4 && b->tensors[p->result].dtype == INLAY_FLOAT ? PRODUCT_LOOPED : 0);
}

/* panels, items: of columns, and workgroups. */
static void put_words(const vr_build *b, const vr_dispatch *d, const vr_product *x, uint64_t panels, uint64_t items)
{
    const int64_t *const batches[] = { x->batch, x->a_batch, x->b_batch, x->out_batch };

    VR_PUT(b, d, 0, x->line, x->lines, x->n, x->k, x->taps, x->a_row, x->a_step, x->b_step, x->b_column, x->b_tap,
           x->b_panel, x->out_row, x->out_column, vr_bits(x->alpha), (int64_t)panels, (int64_t)items);
    for (uint32_t i = 0; i < KIT_COUNT(batches); i++)
        vr_put(b, d, 16 + 3 * i, 3, batches[i]);
    vr_put_window(b, d, 28, &x->window);
    VR_PUT(b, d, 46, x->sibling_count > 0 ? x->siblings[0].p->load_count : 0, x->group);
}

/* The smaller operand is what stays in a cache. */
static inlay_status set_grid(vr_build *b, vr_dispatch *d, const vr_product *x, uint32_t width)
{
    const uint32_t rows = d->constants[ID_OWN], lanes = d->constants[ID_OWN + 2];
    const uint64_t strips = (uint64_t)((x->line + rows - 1) / rows * x->lines);
    const uint32_t together = b->g->facts.is_cpu ? (strips >= 64 ? 8 : 1) : VR_LOCAL / lanes;
    const uint64_t panels = (uint64_t)(x->n + width - 1) / width;
    const uint64_t items =
        (strips + together - 1) / together * panels * (uint64_t)(x->batch[0] * x->batch[1] * x->batch[2]);

    d->constants[ID_LOCAL] = lanes * together;
    put_words(b, d, x, panels, items);
    return vr_grid_groups(b, d, items);
}

static inlay_status emit_product(vr_build *b, const vr_product *x, const vr_program *p)
{
    const gpu_facts *f = &b->g->facts;
    const uint32_t width = vr_panel(f);
    const double terms = (double)x->line * (double)x->lines * (double)x->n * (double)x->k * (double)x->taps;
    vr_dispatch *d = vr_emit(b, shuffles(b) ? SHADER_product_shuffled : SHADER_product, 48);

    VR_OWN(d, rows_each(b, x->line), columns_each(f), lanes_of(f), how_to(b, x, p, width), vr_size_of(x->a.dtype),
           vr_size_of(x->b.dtype));
    vr_expect_flops(b, d, 2 * terms * (double)(x->batch[0] * x->batch[1] * x->batch[2]));
    vr_read_at(b, d, 0, &x->a);
    vr_read_at(b, d, 1, &x->b);
    vr_finish(b, d, p);
    for (uint32_t i = 0; i < x->sibling_count; i++) {
        const vr_program *other = x->siblings[i].p;

        vr_make(b, other->result);
        vr_touch(b, d, PUSH_OWN + 2 + i, x->siblings[i].b, x->b.bytes, false);
        vr_touch_value(b, d, PUSH_OWN + 4 + i, other->result, true);
        for (uint32_t k = 0; k < other->load_count; k++)
            vr_touch_value(b, d, PUSH_INPUT + (i + 1) * other->load_count + k, other->loads[k].value, false);
    }
    return set_grid(b, d, x, width);
}

/* One column: columns are what neighbours have, so the vector becomes the row that all read. */
static void turn_column(vr_product *x, vr_program *p)
{
    vr_product y = *x;

    if (x->n != 1 || x->line == 1 || x->windows || x->packed)
        return;
    p->has_columns = false;
    y.line = 1, y.n = x->line;
    y.a = x->b, y.a_row = 0, y.a_step = x->b_step;
    y.b = x->a, y.b_step = x->a_step, y.b_column = x->a_row;
    y.out_row = x->out_column, y.out_column = x->out_row;
    memcpy(y.a_batch, x->b_batch, sizeof y.a_batch);
    memcpy(y.b_batch, x->a_batch, sizeof y.b_batch);
    *x = y;
}

/* B in panels, where it is a constant that the region keeps so. */
static const vr_constant *panels_of(const vr_build *b, const vr_op *op)
{
    const vr_tensor *w = vr_in(b, op, 1);
    vr_panels p;

    return vr_wants_panels(op, 1, w->rank, w->dims, &p) ? vr_find_constant(b->c, op->info.inputs[1], &p) : NULL;
}

inlay_status vr_finish_product(vr_build *b, const vr_op *op, uint32_t a, vr_product *x, vr_program *p)
{
    const vr_constant *k = panels_of(b, op);

    x->a = vr_source_of(b, a);
    x->b = vr_source_of(b, op->info.inputs[1]);
    if (k != NULL)
        use_panels(b, x, k);
    turn_column(x, p);
    vr_expect_rounds(b, op, x->taps * (1 + x->k / 8 + x->k % 8));
    return emit_product(b, x, p);
}

/* ------------------------------------------------------------------ MatMul */

bool vr_merge_batches(uint32_t rank, const int64_t *dims, uint32_t tensors, int64_t *const *strides_of, int64_t *batch,
                      int64_t *const *out)
{
    int64_t sizes[VR_RANK];
    uint32_t n;

    memcpy(sizes, dims, rank * sizeof *dims);
    n = vr_merge(rank, sizes, tensors, strides_of);
    if (n > 3)
        return false;
    for (uint32_t i = 0; i < 3; i++) {
        const bool is_there = i + n >= 3;

        batch[i] = is_there ? sizes[i + n - 3] : 1;
        for (uint32_t t = 0; t < tensors; t++)
            out[t][i] = is_there ? strides_of[t][i + n - 3] : 0;
    }
    return true;
}

/* Strides of an operand over the result's batch dimensions; 0 where it is broadcast. */
static void batch_strides(const vr_build *b, uint32_t value, uint32_t rank, int64_t *out)
{
    const vr_tensor *t = &b->tensors[value];
    const uint32_t own = t->rank > 2 ? t->rank - 2 : 0;
    int64_t strides[VR_RANK];

    vr_strides(b, value, strides);
    for (uint32_t d = 0; d < rank; d++)
        out[d] = 0;
    for (uint32_t d = 0; d < own && d < rank; d++)
        if (t->dims[d] != 1)
            out[rank - own + d] = strides[d];
}

/* The product of two values, whose result lies by out_strides. false: more than three batches. */
static bool set_mat_mul(const vr_build *b, const vr_op *op, const int64_t *out_strides, vr_product *x)
{
    const uint32_t a_value = op->info.inputs[0], b_value = op->info.inputs[1];
    const vr_tensor *a = vr_in(b, op, 0), *other = vr_in(b, op, 1), *y = vr_out(b, op, 0);
    const uint32_t rank = y->rank + (a->rank == 1) + (other->rank == 1) - 2;
    int64_t sa[VR_RANK], sb[VR_RANK], so[VR_RANK];

    vr_strides(b, a_value, sa);
    vr_strides(b, b_value, sb);
    x->a_step = sa[a->rank - 1];
    x->a_row = a->rank > 1 ? sa[a->rank - 2] : 0;
    x->b_step = sb[other->rank > 1 ? other->rank - 2 : 0];
    x->b_column = other->rank > 1 ? sb[other->rank - 1] : 1;
    x->out_column = other->rank > 1 ? out_strides[y->rank - 1] : 1;
    x->out_row = a->rank > 1 ? out_strides[y->rank - 1 - (other->rank > 1)] : 0;
    memcpy(so, out_strides, sizeof so);
    batch_strides(b, a_value, rank, sa);
    batch_strides(b, b_value, rank, sb);
    if (!vr_merge_batches(rank, y->dims, 3, (int64_t *const[]){ sa, sb, so }, x->batch,
                          (int64_t *const[]){ x->a_batch, x->b_batch, x->out_batch }))
        return false;
    if (x->batch[1] == 1 && x->b_batch[2] == 0 && x->a_batch[2] == x->line * x->a_row &&
        x->out_batch[2] == x->line * x->out_row) { /* the same matrix for all: more rows */
        x->line *= x->batch[2];
        x->batch[2] = 1;
    }
    return true;
}

/* The same operations on tensors of the same form? */
static bool is_like(const vr_build *b, const vr_program *p, const vr_program *q)
{
    bool like = p->slot_count == q->slot_count && p->load_count == q->load_count &&
                p->number_count == q->number_count && p->rank == q->rank &&
                memcmp(p->slots, q->slots, p->slot_count * sizeof p->slots[0]) == 0 &&
                memcmp(p->numbers, q->numbers, p->number_count * sizeof p->numbers[0]) == 0 &&
                memcmp(p->dims, q->dims, p->rank * sizeof p->dims[0]) == 0 &&
                b->tensors[p->result].dtype == b->tensors[q->result].dtype;

    for (uint32_t k = 0; k < p->load_count && like; k++)
        like = memcmp(p->loads[k].strides, q->loads[k].strides, p->rank * sizeof(int64_t)) == 0 &&
               b->tensors[p->loads[k].value].dtype == b->tensors[q->loads[k].value].dtype;
    return like;
}

/* Products that read the same A, as those of queries, keys and values do: with what is fused behind them they become
 * batches of one dispatch. programs: room for what is behind each. */
static void find_siblings(vr_build *b, const vr_op *op, vr_product *x, const vr_program *p, vr_program *programs)
{
    const vr_tensor *w = vr_in(b, op, 1);

    if (panels_of(b, op) == NULL || (p->load_count + 1) * (VR_SIBLINGS + 1) > MOST_INPUTS + 1 ||
        x->batch[0] * x->batch[1] * x->batch[2] != 1)
        return;
    for (uint32_t i = vr_number_of(b, op) + 1; i < b->c->op_count && x->sibling_count < VR_SIBLINGS; i++) {
        const vr_op *other = &b->c->ops[i];
        vr_program *q = &programs[x->sibling_count];

        if (b->done[i] || other->row->family != &vr_mat_mul || other->info.inputs[0] != op->info.inputs[0] ||
            panels_of(b, other) == NULL || memcmp(vr_in(b, other, 1)->dims, w->dims, 2 * sizeof(int64_t)) != 0 ||
            vr_in(b, other, 1)->dtype != w->dtype)
            continue;
        memcpy(b->done_before, b->done, b->c->op_count * sizeof *b->done);
        vr_program_start(b, q, other->info.outputs[0], VR_SINGLE);
        b->done[i] = true;
        vr_grow(b, other, q);
        if (!is_like(b, p, q)) {
            memcpy(b->done, b->done_before, b->c->op_count * sizeof *b->done);
            continue;
        }
        x->siblings[x->sibling_count].b = vr_constant_place(b, panels_of(b, other));
        x->siblings[x->sibling_count++].p = q;
    }
    x->batch[0] += x->sibling_count;
}

static inlay_status lower_mat_mul(vr_build *b, const vr_op *op)
{
    const vr_tensor *a = vr_in(b, op, 0), *other = vr_in(b, op, 1);
    vr_product x = vr_product_of(a->rank == 1 ? 1 : a->dims[a->rank - 2], a->dims[a->rank - 1],
                                 other->rank == 1 ? 1 : other->dims[other->rank - 1]);
    int64_t strides[VR_RANK];
    vr_program p, others[VR_SIBLINGS];

    vr_program_start(b, &p, op->info.outputs[0], VR_SINGLE);
    vr_grow(b, op, &p);
    if (vr_try_attend(b, op, &x, &p))
        return b->status;
    p.has_columns = other->rank > 1;
    p.columns = p.rank - 1;
    vr_follow_transpose(b, &p, strides);
    if (!set_mat_mul(b, op, strides, &x))
        return vr_decline(b, op, "its batches do not lie behind each other");
    find_siblings(b, op, &x, &p, others);
    return vr_finish_product(b, op, op->info.inputs[0], &x, &p);
}

/* ------------------------------------------------------------------ Gemm */

static inlay_status lower_gemm(vr_build *b, const vr_op *op)
{
    const vr_tensor *a = vr_in(b, op, 0), *other = vr_in(b, op, 1);
    const bool trans_a = kit_attr_int(&op->info, "transA", 0) != 0, trans_b = kit_attr_int(&op->info, "transB", 0) != 0;
    const double beta = kit_attr_float(&op->info, "beta", 1);
    vr_product x = vr_product_of(a->dims[trans_a], a->dims[!trans_a], other->dims[!trans_b]);
    vr_program p;

    x.alpha = (float)kit_attr_float(&op->info, "alpha", 1);
    x.a_row = trans_a ? 1 : x.k;
    x.a_step = trans_a ? x.line : 1;
    x.b_step = trans_b ? 1 : x.n;
    x.b_column = trans_b ? x.k : 1;
    vr_program_start(b, &p, op->info.outputs[0], VR_SINGLE);
    if (vr_in(b, op, 2) != NULL && beta != 0) {
        uint32_t c = vr_load_value(b, &p, op->info.inputs[2]);

        if (beta != 1)
            c = vr_slot(&p, OP_MUL, c, vr_number(&p, beta), 0);
        (void)vr_slot(&p, OP_ADD, REG_ACC, c, 0);
    }
    vr_grow(b, op, &p);
    p.has_columns = true;
    p.columns = 1;
    return vr_finish_product(b, op, op->info.inputs[0], &x, &p);
}

/* ------------------------------------------------------------------ all */

bool vr_wants_panels(const vr_op *op, uint32_t input, uint32_t rank, const int64_t *dims, vr_panels *out)
{
    const bool turned = kit_attr_int(&op->info, "transB", 0) != 0;
    vr_panels p = { .groups = 1, .taps = 1 };

    if (input != 1)
        return false;
    if (rank > 2 && (op->row->family == &vr_conv || op->row->family == &vr_conv_transpose)) {
        p.groups = kit_attr_int(&op->info, "group", 1);
        for (uint32_t d = 2; d < rank; d++)
            p.taps *= dims[d];
        const int64_t first = p.groups > 0 ? dims[0] / p.groups : 0, second = dims[1];
        const bool back = op->row->number != 0; /* transposed: [C, M / groups, window] */

        p = (vr_panels){ p.groups,
                         back ? second : first,
                         p.taps,
                         back ? first : second,
                         first * second * p.taps,
                         back ? p.taps : second * p.taps,
                         1,
                         back ? second * p.taps : p.taps };
    } else if (rank == 2 && (op->row->family == &vr_mat_mul || op->row->family == &vr_gemm)) {
        p.k = dims[turned];
        p.columns = dims[!turned];
        p.k_step = turned ? 1 : p.columns;
        p.column_step = turned ? p.k : 1;
    }
    *out = p;
    return p.columns >= 4 && p.k > 0;
}

static bool mat_mul_supports(const kit_node *node, const vr_operator *row, kit_refusal *why)
{
    (void)row;
    return kit_input(node, 1)->rank > 0 || kit_refuse(why, INLAY_REFUSE_SHAPE, NULL, "a scalar is no matrix");
}

const vr_family vr_mat_mul = { .supports = mat_mul_supports, .lower = lower_mat_mul, .least_rank = 1 };
const vr_family vr_gemm = { .lower = lower_gemm };
