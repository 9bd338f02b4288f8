/* Products of rows of bytes by a constant matrix into int32, by tiles of bytes. */
#include "quantized/bytes.h"
#include "quantized/quant.h"
#include "convolution/tiles.h"

/* Bytes of a row that can be widened, or copied to end in a four; those of the rows of a tile. */
enum { DEEP = 8192, STRIP_ROWS = 6, STRIP_END = 16 };

struct rows {
    rg_native native;
    const byte_set *set;
    int64_t m, k, n, quads;
    int64_t tiles, block, panels, chunk; /* tiles of rows; of a unit; panels of channels; of a unit */
    bool flip;
    int32_t first[]; /* that sums begin with */
};

typedef struct rows_call {
    const struct rows *r;
    void *const *args;
} rows_call;

enum { ARG_X, ARG_W, ARG_Y };

bool bytes_run_product(const rg_state *state, int64_t k)
{
    return state->bytes != NULL && k <= DEEP;
}

bool bytes_offer_product(const kit_node *node, uint32_t matrix, kit_refusal *why)
{
    const inlay_value_info *w = kit_input(node, matrix);
    kit_refusal library = { 0, "", "" };

    if (q_library_has_products(&library))
        return true;
    return (byte_set_of_cpu() != NULL && w != NULL && w->rank == 2 && w->dims[0].kind == INLAY_DIM_FIXED &&
            w->dims[0].value <= DEEP) ||
           kit_refuse(why, INLAY_REFUSE_DEVICE, "a CPU with AVX-512 VNNI",
                      "without AVX-512 VNNI there is no exact product of bytes of this size");
}

/* Rows [first, last), at most STRIP_ROWS, as the loops read them: each of `step` bytes. */
static const uint8_t *lay_out(const struct rows *r, const uint8_t *x, int64_t first, int64_t last, int16_t *strip,
                              int64_t *out_step)
{
    const int64_t whole = r->k / 4 * 4, depth = r->quads * 4;
    uint8_t *bytes = (uint8_t *)strip;

    *out_step = r->set->wide ? depth * 2 : whole == r->k ? r->k : depth;
    if (!r->set->wide && whole == r->k)
        return x + first * r->k;
    for (int64_t i = first; i < last; i++) {
        const uint8_t *row = x + i * r->k;
        uint8_t four[4] = { 0 };

        memcpy(four, row + whole, (size_t)(r->k - whole));
        if (r->set->wide) {
            int16_t *to = strip + (i - first) * depth;

            r->set->widen(row, whole, r->flip, to);
            if (whole < r->k)
                r->set->widen(four, sizeof four, r->flip, to + whole);
        } else {
            memcpy(bytes + (i - first) * depth, row, (size_t)whole);
            memcpy(bytes + (i - first) * depth + whole, four, (size_t)(depth - whole));
        }
    }
    return bytes;
}

static void one_tile(const rows_call *call, int64_t tile, int64_t panel, int64_t past)
{
    static const int64_t start = 0;
    const struct rows *r = call->r;
    const byte_set *set = r->set;
    const int64_t first = tile * r->m / r->tiles, last = (tile + 1) * r->m / r->tiles;
    int16_t strip[STRIP_ROWS * DEEP + STRIP_END];
    byte_product p = { .taps = &start,
                       .tap_count = 1,
                       .steps = set->wide ? 2 * r->quads : r->quads,
                       .y_pixel = r->n * (int64_t)sizeof(int32_t),
                       .flip = r->flip && !set->wide,
                       .ending.kind = BYTE_SUMS };

    p.x = lay_out(r, call->args[ARG_X], first, last, strip, &p.x_pixel);
    for (; panel < past; panel++) {
        const int64_t column = panel * set->width, left = r->n - column;

        p.columns = left < set->width ? left : set->width;
        p.lines = (p.columns + set->lanes - 1) / set->lanes;
        p.w = (const int8_t *)call->args[ARG_W] + panel * r->quads * set->width * 4;
        p.y = (int32_t *)call->args[ARG_Y] + first * r->n + column;
        p.ending.first = r->first + column;
        set->multiply(&p, (int)(last - first));
    }
}

static inlay_status rows_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const rows_call *call = user;
    const struct rows *r = call->r;
    const int64_t chunks = (r->panels + r->chunk - 1) / r->chunk;

    (void)worker;
    for (int64_t u = begin; u < end; u++) {
        const int64_t first = u / chunks * r->block, last = first + r->block < r->tiles ? first + r->block : r->tiles;
        const int64_t panel = u % chunks * r->chunk, past = panel + r->chunk < r->panels ? panel + r->chunk : r->panels;

        for (int64_t t = first; t < last; t++)
            one_tile(call, t, panel, past);
    }
    return INLAY_OK;
}

static inlay_status run_product(const rg_native *native, const rg_state *state, inlay_run *run, void *const *args,
                                uint32_t threads)
{
    const struct rows *r = (const struct rows *)(const void *)native;
    rows_call call = { r, args };
    const int64_t units = (r->tiles + r->block - 1) / r->block * ((r->panels + r->chunk - 1) / r->chunk);

    if (threads <= 1 || units < 2)
        return rows_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, rows_units, &call);
}

inlay_status bytes_emit_product(rg_build *b, const rg_place *a, uint32_t weights, int64_t m, int64_t k, int64_t n,
                                rg_place *out)
{
    enum { ALONE_FLOPS = 400000 };
    const byte_set *set = b->state->bytes;
    const int64_t w_dims[] = { n, k }, w_strides[] = { 1, n }, y_dims[] = { m, n };
    const uint32_t threads = 2.0 * (double)m * (double)k * (double)n > ALONE_FLOPS ? b->instance->threads : 1;
    const int64_t room = (n + set->lanes - 1) / set->lanes * set->lanes;
    struct rows *r = NULL;
    const int32_t *sums;
    inlay_status status;
    rg_md plain, md;
    tiles_cut cut;
    rg_place w;

    rg_md_strides(&plain, 2, w_dims, w_strides);
    plain.data_type = DN_S8;
    if (!bytes_tiles_layout(set, &plain, &md))
        return inlay_fail(b->diag, INLAY_INTERNAL, "node '%s': no layout for its weights", b->op->name);
    INLAY_TRY(rg_read_constant(b, weights, &plain, &md, &w));
    sums = bytes_tiles_sums(set, &md, b->instance->buffers[w.buffer].data, n);
    rg_md_plain(&md, 2, y_dims);
    md.data_type = DN_S32;
    INLAY_TRY(rg_new_place(b, &md, out));
    r = rg_new_native(b, sizeof *r + (size_t)room * sizeof r->first[0]);
    if (r == NULL)
        return q_no_memory(b);
    *r = (struct rows){ .native = { .run = run_product, .pooled = true },
                        .set = set,
                        .m = m,
                        .k = k,
                        .n = n,
                        .quads = (k + 3) / 4,
                        .tiles = (m + STRIP_ROWS - 1) / STRIP_ROWS,
                        .panels = (n + set->width - 1) / set->width,
                        .flip = a->md.data_type == DN_S8 };
    for (int64_t o = 0; r->flip && o < n; o++)
        r->first[o] = (int32_t)(0u - 128u * (uint32_t)sums[o]);
    tiles_find_cut(r->tiles, STRIP_ROWS * k, r->panels, r->quads, threads, &cut);
    r->block = cut.block;
    r->chunk = cut.chunk;
    status = rg_emit_native(b, &r->native, (const rg_place *const[]){ a, &w, out }, 3);
done:
    return status;
}
