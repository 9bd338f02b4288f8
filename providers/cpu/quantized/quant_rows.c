/* GEMM of bytes by a constant matrix into int32, by int8 tiles. */
#include "cpu/quantized/bytes.h"
#include "cpu/quantized/quant.h"
#include "cpu/convolution/tiles.h"
#include "cpu/weights/read.h"

/* DEEP: most bytes of a row, since rows of a tile are widened, or copied to a multiple of 4, on the stack. */
enum { DEEP = 8192, STRIP_ROWS = 6, STRIP_END = 16 };

struct rows {
    cpu_native native;
    const byte_set *set;
    int64_t m, k, n, quads;
    int64_t tiles, block;  /* tiles of rows, and of a unit */
    int64_t panels, chunk; /* panels of columns, and of a unit */
    bool flip;
    int32_t first[]; /* [n] the initial values of sums */
};

typedef struct rows_call {
    const struct rows *rows;
    void *const *args;
} rows_call;

enum { ARG_X, ARG_W, ARG_Y };

bool bytes_offer_product(const kit_node *node, uint32_t matrix, kit_refusal *why)
{
    const inlay_value_info *weights = kit_input(node, matrix);

    return (byte_set_of_cpu() != NULL && weights != NULL && weights->rank == 2 &&
            weights->dims[0].kind == INLAY_DIM_FIXED && weights->dims[0].value <= DEEP) ||
           kit_refuse(why, INLAY_REFUSE_DEVICE, "a CPU with AVX-512 VNNI",
                      "without AVX-512 VNNI there is no exact int8 GEMM of this size");
}

/* Rows [first, last) in the format of the kernel, *out_step bytes apart: the input itself, or a copy in strip. */
static const uint8_t *prepare_rows(const struct rows *rows, const uint8_t *input, int64_t first, int64_t last,
                                   int16_t *strip, int64_t *out_step)
{
    const int64_t whole = rows->k / 4 * 4, depth = rows->quads * 4;
    uint8_t *bytes = (uint8_t *)strip;

    INLAY_CHECK(last - first <= STRIP_ROWS && rows->k <= DEEP);
    *out_step = rows->set->wide ? depth * 2 : whole == rows->k ? rows->k : depth;
    if (!rows->set->wide && whole == rows->k)
        return input + first * rows->k;
    for (int64_t i = first; i < last; i++) {
        const uint8_t *row = input + i * rows->k;
        uint8_t four[4] = { 0 };

        memcpy(four, row + whole, (size_t)(rows->k - whole));
        if (rows->set->wide) {
            int16_t *to = strip + (i - first) * depth;

            rows->set->widen(row, whole, rows->flip, to);
            if (whole < rows->k)
                rows->set->widen(four, sizeof four, rows->flip, to + whole);
        } else {
            memcpy(bytes + (i - first) * depth, row, (size_t)whole);
            memcpy(bytes + (i - first) * depth + whole, four, (size_t)(depth - whole));
        }
    }
    return bytes;
}

static void multiply_tile(const rows_call *call, int64_t tile, int64_t panel, int64_t past)
{
    static const int64_t start = 0;
    const struct rows *rows = call->rows;
    const byte_set *set = rows->set;
    const int64_t first = tile * rows->m / rows->tiles, last = (tile + 1) * rows->m / rows->tiles;
    int16_t strip[STRIP_ROWS * DEEP + STRIP_END];
    byte_product product = { .taps = &start,
                             .tap_count = 1,
                             .steps = set->wide ? 2 * rows->quads : rows->quads,
                             .y_pixel = rows->n * (int64_t)sizeof(int32_t),
                             .flip = rows->flip && !set->wide,
                             .ending.kind = BYTE_SUMS };

    product.input = prepare_rows(rows, call->args[ARG_X], first, last, strip, &product.x_pixel);
    for (; panel < past; panel++) {
        const int64_t column = panel * set->width, left = rows->n - column;

        product.columns = left < set->width ? left : set->width;
        product.lines = (product.columns + set->lanes - 1) / set->lanes;
        product.weights = (const int8_t *)call->args[ARG_W] + panel * rows->quads * set->width * 4;
        product.output = (int32_t *)call->args[ARG_Y] + first * rows->n + column;
        product.ending.first = rows->first + column;
        set->multiply(&product, (int)(last - first));
    }
}

static inlay_status rows_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const rows_call *call = user;
    const struct rows *rows = call->rows;
    const int64_t chunks = (rows->panels + rows->chunk - 1) / rows->chunk;

    (void)worker;
    for (int64_t u = begin; u < end; u++) {
        const int64_t first = u / chunks * rows->block,
                      last = first + rows->block < rows->tiles ? first + rows->block : rows->tiles;
        const int64_t panel = u % chunks * rows->chunk,
                      past = panel + rows->chunk < rows->panels ? panel + rows->chunk : rows->panels;

        for (int64_t t = first; t < last; t++)
            multiply_tile(call, t, panel, past);
    }
    return INLAY_OK;
}

static inlay_status run_product(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                                uint32_t threads)
{
    const struct rows *rows = (const struct rows *)(const void *)native;
    rows_call call = { rows, args };
    const int64_t units =
        (rows->tiles + rows->block - 1) / rows->block * ((rows->panels + rows->chunk - 1) / rows->chunk);

    if (threads <= 1 || units < 2)
        return rows_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, rows_units, &call);
}

inlay_status bytes_emit_product(cpu_build *build, const cpu_place *place, uint32_t weights, int64_t m, int64_t k,
                                int64_t n, cpu_place *out, const int32_t **out_sums)
{
    enum { ALONE_FLOPS = 400000 };
    const byte_set *set = build->state->bytes;
    const int64_t weights_dims[] = { n, k }, w_strides[] = { 1, n }, y_dims[] = { m, n };
    const uint32_t threads = 2.0 * (double)m * (double)k * (double)n > ALONE_FLOPS ? build->instance->threads : 1;
    const int64_t room = (n + set->lanes - 1) / set->lanes * set->lanes;
    struct rows *rows = NULL;
    const int32_t *sums;
    inlay_status status;
    tensor_layout plain, layout;
    tiles_cut cut;
    cpu_place w;

    INLAY_CHECK(set != NULL && k <= DEEP); /* bytes_offer_product */
    layout_strides(&plain, 2, weights_dims, w_strides);
    plain.type = ELEMENT_INT8;
    if (!bytes_tiles_layout(set, &plain, &layout))
        return inlay_fail(build->diag, INLAY_INTERNAL, "node '%s': the packed weights would be too large",
                          build->op->name);
    INLAY_TRY(cpu_read_constant(build, weights, &plain, &layout, &w));
    sums = *out_sums = bytes_tiles_sums(set, &layout, build->instance->buffers[w.buffer].data, n);
    layout_plain(&layout, 2, y_dims);
    layout.type = ELEMENT_INT32;
    INLAY_TRY(cpu_new_place(build, &layout, out));
    rows = cpu_new_native(build, sizeof *rows + (size_t)room * sizeof rows->first[0]);
    if (rows == NULL)
        return q_no_memory(build);
    *rows = (struct rows){ .native = { .run = run_product, .pooled = true },
                           .set = set,
                           .m = m,
                           .k = k,
                           .n = n,
                           .quads = (k + 3) / 4,
                           .tiles = (m + STRIP_ROWS - 1) / STRIP_ROWS,
                           .panels = (n + set->width - 1) / set->width,
                           .flip = place->layout.type == ELEMENT_INT8 };
    for (int64_t o = 0; rows->flip && o < n; o++)
        rows->first[o] = (int32_t)(0u - 128u * (uint32_t)sums[o]);
    tiles_find_cut(rows->tiles, STRIP_ROWS * k, rows->panels, rows->quads, threads, &cut);
    rows->block = cut.block;
    rows->chunk = cut.chunk;
    status = cpu_emit_native(build, &rows->native, (const cpu_place *const[]){ place, &w, out }, 3);
done:
    return status;
}
