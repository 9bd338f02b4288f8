/* Dispatches of products, shaders/product.comp: of matrices (mat_mul.c), and of windows (conv.c). */
#include "region.h"

/* ------------------------------------------------------------------ tiles */

enum { MOST_TILE_ROWS = 12 };

static bool shuffles(const vr_build *b)
{
    return b->g->facts.shuffles && !vr_scalar_loads(b);
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

    VR_OWN(d, rows_each(b, x->line), vr_panel_columns(f), vr_panel_lanes(f), how_to(b, x, p, width),
           vr_size_of(x->a.dtype), vr_size_of(x->b.dtype));
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

const vr_constant *vr_panels_of(const vr_build *b, const vr_op *op)
{
    const vr_tensor *w = vr_in(b, op, 1);
    vr_panels p;

    return vr_wants_panels(op, 1, w->rank, w->dims, &p) ? vr_find_constant(b->c, op->info.inputs[1], &p) : NULL;
}

inlay_status vr_finish_product(vr_build *b, const vr_op *op, uint32_t a, vr_product *x, vr_program *p)
{
    const vr_constant *k = vr_panels_of(b, op);

    x->a = vr_source_of(b, a);
    x->b = vr_source_of(b, op->info.inputs[1]);
    if (k != NULL)
        use_panels(b, x, k);
    turn_column(x, p);
    vr_expect_rounds(b, op, x->taps * (1 + x->k / 8 + x->k % 8));
    return emit_product(b, x, p);
}
