/* Copies between layouts, as steps of a region. */
#include "layout/moves.h"
#include "convolution/tiles.h"
#include "simd/optional.h"

const move_set *moves_of_cpu(void)
{
    return KERNEL_BEST(moves);
}

/* The axis that lies in blocks and how many elements a block has; block 1: none does. false: it is none of these
 * layouts. Elements of other sizes than a word are the library's where they lie in blocks. */
static bool find_block(const rg_md *md, int *out_axis, int64_t *out_block)
{
    const rg_md *b = md;

    *out_axis = -1;
    *out_block = 1;
    if (md->kind != RG_BLOCKED || b->inner_nblks > 1 || rg_type_bytes(md->data_type) > sizeof(float))
        return false;
    if (b->inner_nblks == 0)
        return true;
    if (rg_type_bytes(md->data_type) != sizeof(float))
        return false;
    *out_axis = (int)b->inner_idxs[0];
    *out_block = b->inner_blks[0];
    return md->dims[*out_axis] % *out_block == 0;
}

/* One more axis, at its place by the target's strides. */
static void add_axis(move_axes *a, int64_t size, int64_t from, int64_t to)
{
    uint32_t at = a->rank;

    if (size == 1)
        return;
    for (; at > 0 && a->to[at - 1] < to; at--) {
        a->dims[at] = a->dims[at - 1];
        a->from[at] = a->from[at - 1];
        a->to[at] = a->to[at - 1];
    }
    a->dims[at] = size;
    a->from[at] = from;
    a->to[at] = to;
    a->rank++;
}

/* Neighbours that lie together on both sides become one. */
static void merge_axes(move_axes *a)
{
    uint32_t last = 0;

    for (uint32_t d = 1; d < a->rank; d++) {
        bool together = a->to[last] == a->to[d] * a->dims[d] && a->from[last] == a->from[d] * a->dims[d];
        int64_t before = together ? a->dims[last] : 1;

        last += together ? 0 : 1;
        a->dims[last] = before * a->dims[d];
        a->from[last] = a->from[d];
        a->to[last] = a->to[d];
    }
    a->rank = last + 1;
}

bool move_axes_of(const rg_md *from, const rg_md *to, move_axes *out)
{
    const int64_t *f = from->strides, *t = to->strides;
    int axis, other;
    int64_t block, second;

    if (!find_block(from, &axis, &block) || !find_block(to, &other, &second) || from->data_type != to->data_type ||
        from->ndims != to->ndims || (axis >= 0 && other >= 0 && (axis != other || block != second)))
        return false;
    out->rank = 0;
    for (int d = 0; d < to->ndims; d++) {
        int64_t size = d == axis ? block : d == other ? second : 1;

        if (from->dims[d] != to->dims[d] || to->dims[d] < 1)
            return false;
        add_axis(out, to->dims[d] / size, d == axis ? f[d] : f[d] * size, d == other ? t[d] : t[d] * size);
        add_axis(out, size, d == axis ? 1 : f[d], d == other ? 1 : t[d]);
    }
    if (out->rank == 0)
        *out = (move_axes){ 1, { 1 }, { 1 }, { 1 } };
    merge_axes(out);
    return true;
}

/* ------------------------------------------------------------------ the step */

enum {
    ROW_BLOCK = 256,   /* of a square that is turned: along the target's innermost axis */
    COLUMN_BLOCK = 64, /* at least */
    UNIT_WORDS = ROW_BLOCK * COLUMN_BLOCK,
    SHORT_WORDS = 1024,     /* fewer make the two innermost axes a poor unit */
    ALONE_WORDS = 24 * 1024 /* less is not worth waking threads for */
};

/* Two axes are the kernel's: `row` and `column` for x; the others are counted through. */
typedef struct move_step {
    rg_native native;
    const move_set *set;
    move_axes axes;
    uint32_t size;        /* bytes of an element */
    uint32_t row, column; /* the same: one axis, which is the column */
    bool turn;            /* the column is the source's innermost axis, the row the target's */
    int64_t row_block, column_block;
    int64_t counts[DN_MAX_NDIMS]; /* units along each axis */
    int64_t units;
} move_step;

typedef struct move_call {
    const move_step *m;
    const char *x;
    char *y;
} move_call;

/* Neither side has neighbours to move at once. */
static inline __attribute__((always_inline)) void move_elements(const move_step *m, const char *x, char *y,
                                                                int64_t rows, int64_t columns, const size_t size)
{
    const move_axes *a = &m->axes;
    const int64_t from = a->from[m->column] * (int64_t)size, to = a->to[m->column] * (int64_t)size;

    for (int64_t r = 0; r < rows; r++, x += a->from[m->row] * (int64_t)size, y += a->to[m->row] * (int64_t)size)
        for (int64_t c = 0; c < columns; c++)
            memcpy(y + c * to, x + c * from, size);
}

/* Both sides have rows. */
static void move_rows(const move_step *m, const char *x, char *y, int64_t rows, int64_t columns)
{
    const int64_t size = m->size, from = m->axes.from[m->row] * size, to = m->axes.to[m->row] * size;

    if ((columns * size | from | to) % (int64_t)sizeof(float) == 0 &&
        ((uintptr_t)x | (uintptr_t)y) % sizeof(float) == 0) {
        m->set->rows((const float *)(const void *)x, from / 4, (float *)(void *)y, to / 4, rows, columns * size / 4);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        memcpy(y + r * to, x + r * from, (size_t)(columns * size));
}

static void move_unit(const move_call *call, const int64_t *at)
{
    const move_step *m = call->m;
    const move_axes *a = &m->axes;
    int64_t from = 0, to = 0, rows = 1, columns = a->dims[m->column] - at[m->column] * m->column_block;

    for (uint32_t d = 0; d < a->rank; d++) {
        int64_t i = at[d] * (d == m->column ? m->column_block : d == m->row ? m->row_block : 1);

        from += i * a->from[d];
        to += i * a->to[d];
    }
    columns = columns < m->column_block ? columns : m->column_block;
    if (m->row != m->column) {
        rows = a->dims[m->row] - at[m->row] * m->row_block;
        rows = rows < m->row_block ? rows : m->row_block;
    }
    const char *x = call->x + from * m->size;
    char *y = call->y + to * m->size;
    const int64_t x_row = a->from[m->row], y_row = a->to[m->column];

    if (m->turn && m->set != NULL && m->size == sizeof(float))
        m->set->turn((const float *)(const void *)x, x_row, (float *)(void *)y, y_row, rows, columns);
    else if (m->turn && m->set != NULL)
        m->set->turn_elements[m->size / 2](x, x_row * m->size, y, y_row * m->size, rows, columns);
    else if (m->set != NULL && a->from[m->column] == 1 && a->to[m->column] == 1)
        move_rows(m, x, y, rows, columns);
    else if (m->size == sizeof(float))
        move_elements(m, x, y, rows, columns, sizeof(float));
    else if (m->size == 2)
        move_elements(m, x, y, rows, columns, 2);
    else
        move_elements(m, x, y, rows, columns, 1);
}

static inlay_status move_some(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const move_call *call = user;
    const move_step *m = call->m;
    int64_t at[DN_MAX_NDIMS], left = begin;

    (void)worker;
    for (uint32_t d = m->axes.rank; d-- > 0; left /= m->counts[d])
        at[d] = left % m->counts[d];
    for (int64_t u = begin; u < end; u++) {
        uint32_t d = m->axes.rank;

        move_unit(call, at);
        while (d-- > 0 && ++at[d] == m->counts[d])
            at[d] = 0;
    }
    return INLAY_OK;
}

static inlay_status run_move(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                             uint32_t threads)
{
    const move_step *m = (const move_step *)(const void *)native;
    move_call call = { m, args[0], args[1] };
    int64_t words = 1, grain;

    for (uint32_t d = 0; d < m->axes.rank; d++)
        words *= m->axes.dims[d];
    if (threads <= 1 || m->units == 1 || words < ALONE_WORDS)
        return move_some(&call, 0, m->units, 0);
    grain = UNIT_WORDS / (words / m->units + 1) + 1;
    return state->host->parallel_for(state->host->ctx, run, m->units, grain, move_some, &call);
}

/* Which axes are the kernel's, and how they are cut into units. */
static void divide(move_step *m)
{
    const move_axes *a = &m->axes;
    uint32_t last = a->rank - 1, inner = INLAY_NONE;

    for (uint32_t d = 0; d < a->rank; d++)
        if (a->from[d] == 1)
            inner = d;
    m->turn = a->to[last] == 1 && a->from[last] != 1 && inner != INLAY_NONE && inner != last;
    if (m->turn) {
        m->row = last;
        m->column = inner;
        m->row_block = ROW_BLOCK;
        m->column_block = a->dims[last] < ROW_BLOCK ? UNIT_WORDS / a->dims[last] / COLUMN_BLOCK * COLUMN_BLOCK
                                                    : COLUMN_BLOCK; /* of few rows, more columns */
    } else {
        m->column = last;
        m->row = last > 0 ? last - 1 : last;
        for (uint32_t d = 0; d < last && a->dims[last - 1] * a->dims[last] < SHORT_WORDS; d++)
            if (a->dims[d] > a->dims[m->row])
                m->row = d;
        m->column_block = a->dims[last] < UNIT_WORDS ? a->dims[last] : UNIT_WORDS;
        m->row_block = m->row == m->column ? m->column_block : UNIT_WORDS / m->column_block;
    }
    m->units = 1;
    for (uint32_t d = 0; d < a->rank; d++) {
        int64_t block = d == m->column ? m->column_block : d == m->row ? m->row_block : 1;

        m->counts[d] = a->dims[d] / block + (a->dims[d] % block != 0);
        m->units *= m->counts[d];
    }
}

static inlay_status emit_move(rg_build *b, const move_axes *axes, const rg_place *from, const rg_place *to)
{
    move_step m = { .native.run = run_move,
                    .set = b->state->moves,
                    .axes = *axes,
                    .size = (uint32_t)rg_type_bytes(from->md.data_type) };

    divide(&m);
    return rg_emit_step(b, &m.native, sizeof m, (const rg_place *const[]){ from, to }, 2);
}

/* oneDNN's, but for layouts that it can't be told of: parts whose last step ends past the whole. */
static inlay_status emit_reorder(rg_build *b, const rg_place *from, const rg_place *to)
{
    dn_description pd = NULL;
    dn_status code = dn_describe_reorder(b->state->engine, &from->md, &to->md, &pd);
    inlay_status status;
    move_axes axes;

    if ((code == DN_INVALID_ARGUMENTS || b->state->alone) && b->state->moves != NULL &&
        move_axes_of(&from->md, &to->md, &axes))
        return emit_move(b, &axes, from, to);
    INLAY_TRY(rg_check(code, b->diag, "reorder values", b->op->name));
    status = rg_emit(b, pd, (const rg_operand[]){ { DN_ARG_FROM, from }, { DN_ARG_TO, to } }, 2);
done:
    dn_destroy(pd);
    return status;
}

/* Squares of bytes and halves are wide: of a few columns or rows of them the library makes more, but of bytes of
 * colours that follow each other without gaps. */
static bool is_thin(const move_axes *a, const rg_md *md)
{
    enum { THIN = 8, COLOURS = 3, PIXELS = 64 };
    const uint32_t last = a->rank - 1;

    if (rg_type_bytes(md->data_type) == sizeof(float) || a->from[last] == 1)
        return false;
    for (uint32_t d = 0; d < last; d++) {
        const int64_t columns = a->dims[d], rows = a->dims[last];

        if (a->from[d] != 1)
            continue;
        if (rg_type_bytes(md->data_type) == 1 && columns >= COLOURS && columns <= COLOURS + 1 &&
            a->from[last] == columns && rows >= PIXELS)
            return false;
        return columns < THIN || rows < THIN;
    }
    return true;
}

inlay_status rg_emit_copy(rg_build *b, const rg_place *from, const rg_place *to)
{
    move_axes axes;

    if (b->state->moves == NULL || !move_axes_of(&from->md, &to->md, &axes) || is_thin(&axes, &from->md))
        return emit_reorder(b, from, to);
    return emit_move(b, &axes, from, to);
}

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(rg_emit_copy);
