/* GEMM of bytes into int32, by int8 tiles. */
#include "cpu/quantized/bytes.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/host.h"
#include "cpu/quantized/quant.h"
#include "cpu/convolution/tiles.h"
#include "cpu/weights/read.h"

/* DEEP: most bytes of a row, since rows of a tile are widened, or copied to a multiple of 4, on the stack; STRIP: bytes
 * for them. GAP: rows of results do not start at addresses that share a set of the cache. */
enum { DEEP = 8192, STRIP_ROWS = 6, STRIP = STRIP_ROWS * DEEP * 2, STRIP_END = 16 };
enum { MOST_ROWS = 32, GAP = 16, RESULTS_STEP = BYTES_MOST_RESULTS + GAP };

typedef struct rows_call {
    const bytes_product *rows;
    const uint8_t *x;
    const int8_t *w;
    const bytes_results *results;
} rows_call;

bool bytes_offer_product(const kit_node *node, uint32_t matrix, kit_refusal *why)
{
    const inlay_value_info *weights = kit_input(node, matrix);
    const bool is_matrix = weights != NULL && weights->rank != INLAY_RANK_UNKNOWN && weights->rank >= 2;
    const inlay_dim *depth = is_matrix ? &weights->dims[weights->rank - 2] : NULL;

    return (byte_set_of_cpu() != NULL && depth != NULL && depth->kind == INLAY_DIM_FIXED && depth->value >= 1 &&
            depth->value <= DEEP) ||
           kit_refuse(why, INLAY_REFUSE_DEVICE, "a CPU with AVX-512 VNNI",
                      "without AVX-512 VNNI there is no exact int8 GEMM of this size");
}

/* Rows [first, last) in the format of the kernel, *out_step bytes apart: the input itself, or a copy in strip. After a
 * row whose last quad is not whole the kernel reads the first bytes of the next row, and multiplies them by 0; the last
 * row is copied. */
static const uint8_t *prepare_rows(const bytes_product *rows, const uint8_t *input, int64_t first, int64_t last,
                                   int16_t *strip, int64_t *out_step)
{
    const int64_t whole = rows->k / 4 * 4, depth = rows->quads * 4;
    uint8_t *bytes = (uint8_t *)strip;
    const bool in_place = !rows->set->wide && (whole == rows->k || last < rows->m);

    *out_step = rows->set->wide ? depth * 2 : in_place ? rows->k : depth;
    if (in_place)
        return input + first * rows->k;
    INLAY_CHECK((last - first) * *out_step <= STRIP);
    for (int64_t i = first; i < last; i++) {
        const uint8_t *row = input + i * rows->k;
        uint8_t four[4] = { 0 };

        memcpy(four, row + whole, (size_t)(rows->k - whole));
        if (rows->set->wide) {
            int16_t *to = strip + (i - first) * depth;

            rows->set->widen(row, whole, rows->is_signed, to);
            if (whole < rows->k)
                rows->set->widen(four, sizeof four, rows->is_signed, to + whole);
        } else {
            memcpy(bytes + (i - first) * depth, row, (size_t)whole);
            memcpy(bytes + (i - first) * depth + whole, four, (size_t)(depth - whole));
        }
    }
    return bytes;
}

/* Multiplies the rows of a tile by panels [panel, past), at most BYTES_MOST_RESULTS columns. */
static void multiply_tile(const rows_call *call, int64_t tile, int64_t panel, int64_t past, int *shaped)
{
    static const int64_t start = 0;
    const bytes_product *rows = call->rows;
    const bytes_results *results = call->results;
    const byte_set *set = rows->set;
    const int64_t first = tile * rows->m / rows->row_tiles, last = (tile + 1) * rows->m / rows->row_tiles;
    const int64_t from = panel * set->width, to = past * set->width < rows->n ? past * set->width : rows->n;
    int16_t strip[STRIP / 2 + STRIP_END];
    _Alignas(64) int32_t values[MOST_ROWS * RESULTS_STEP]; /* or floats */
    byte_product product = { .taps = &start,
                             .tap_count = 1,
                             .steps = set->wide ? 2 * rows->quads : rows->quads,
                             .y_pixel = (results->finish != NULL ? RESULTS_STEP : rows->n) * (int64_t)sizeof values[0],
                             .flip = rows->is_signed && !set->wide,
                             .ending = results->ending };

    INLAY_CHECK(last - first <= (rows->tiles != NULL ? MOST_ROWS : STRIP_ROWS) && to - from <= BYTES_MOST_RESULTS);
    product.input = prepare_rows(rows, call->x, first, last, strip, &product.x_pixel);
    for (; panel < past; panel++) {
        const int64_t column = panel * set->width, left = rows->n - column;

        product.columns = left < set->width ? left : set->width;
        product.lines = (product.columns + set->lanes - 1) / set->lanes;
        product.weights = call->w + panel * rows->quads * set->width * 4;
        product.output =
            results->finish != NULL ? values + column - from : (int32_t *)results->output + first * rows->n + column;
        product.ending.first = results->ending.first + column;
        product.ending.scale = results->ending.scale + column;
        product.ending.shift = results->ending.shift + column;
        if (rows->tiles != NULL)
            rows->tiles->multiply(&product, (int)(last - first), shaped);
        else
            set->multiply(&product, (int)(last - first));
    }
    for (int64_t i = first; results->finish != NULL && i < last; i++)
        results->finish(results->user, i, from, to - from, values + (i - first) * RESULTS_STEP);
}

/* A few panels, which then are in the cache, are multiplied by all rows of a unit before the next panels. */
static inlay_status rows_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const rows_call *call = user;
    const bytes_product *rows = call->rows;
    const int64_t chunks = (rows->panels + rows->chunk - 1) / rows->chunk, few = BYTES_MOST_RESULTS / rows->set->width;
    int shaped = 0;

    (void)worker;
    for (int64_t u = begin; u < end; u++) {
        const int64_t first = u / chunks * rows->block,
                      last = first + rows->block < rows->row_tiles ? first + rows->block : rows->row_tiles;
        const int64_t chunk = u % chunks * rows->chunk,
                      past = chunk + rows->chunk < rows->panels ? chunk + rows->chunk : rows->panels;

        for (int64_t panel = chunk; panel < past; panel += few)
            for (int64_t t = first; t < last; t++)
                multiply_tile(call, t, panel, panel + few < past ? panel + few : past, &shaped);
    }
    if (rows->tiles != NULL)
        rows->tiles->end(&shaped);
    return INLAY_OK;
}

inlay_status bytes_run_product(const bytes_product *product, const cpu_state *state, inlay_run *run, uint32_t threads,
                               const void *x, const void *w, const bytes_results *results)
{
    rows_call call = { product, x, w, results };
    const int64_t units = (product->row_tiles + product->block - 1) / product->block *
                          ((product->panels + product->chunk - 1) / product->chunk);

    if (threads <= 1 || units < 2)
        return rows_units(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, rows_units, &call);
}

inlay_status bytes_init_product(cpu_build *build, const cpu_place *place, uint32_t weights, int64_t m, int64_t k,
                                int64_t n, cpu_place *out_weights, bytes_product *out)
{
    const byte_set *set;
    const byte_tiles *tiles = bytes_tiles_for(m, 1, (k + 3) / 4, n);
    const int64_t weights_dims[] = { n, k }, w_strides[] = { 1, n };
    const uint32_t threads =
        2.0 * (double)m * (double)k * (double)n > bytes_alone_flops((double)m) ? build->instance->threads : 1;
    const bool is_signed = place->layout.type == ELEMENT_INT8;
    int64_t height = STRIP_ROWS;
    inlay_status status;
    tensor_layout plain, layout;
    tiles_cut cut;

    INLAY_CHECK(build->state->bytes != NULL && k <= DEEP); /* bytes_offer_product */
    layout_strides(&plain, 2, weights_dims, w_strides);
    plain.type = ELEMENT_INT8;
    set = bytes_set_for(build, weights, &plain);
    if (!bytes_tiles_layout(set, &plain, 1, &layout))
        return inlay_fail(build->diag, INLAY_INTERNAL, "node '%s': the packed weights would be too large",
                          build->op->name);
    status = build->compiled->values[weights].constant != INLAY_NONE
                 ? cpu_read_constant(build, weights, &plain, &layout, out_weights)
                 : cpu_read_plain(build, weights, out_weights);
    if (status != INLAY_OK)
        return status;
    if (tiles != NULL)
        height = k % 4 == 0 || tiles->rows * (k + 3) <= STRIP ? tiles->rows : STRIP / (k + 3);
    *out = (bytes_product){ .set = set,
                            .tiles = tiles,
                            .m = m,
                            .k = k,
                            .n = n,
                            .quads = (k + 3) / 4,
                            .room = (n + set->lanes - 1) / set->lanes * set->lanes,
                            .row_tiles = (m + height - 1) / height,
                            .panels = (n + set->width - 1) / set->width,
                            .is_signed = is_signed,
                            .packed_bytes = (int64_t)layout_bytes(&layout),
                            .offset = byte_offset(set, tiles, is_signed) };
    tiles_find_cut(out->row_tiles, height * k, (double)n / (double)set->width, out->quads, threads, &cut);
    out->block = cut.block;
    out->chunk = cut.chunk;
    return INLAY_OK;
}

const int32_t *bytes_matrix_sums(const bytes_product *product, const void *packed)
{
    return (const int32_t *)(const void *)((const char *)packed + product->packed_bytes) - product->room;
}

/* The bytes of up to four rows, `step` bytes apart. */
static uint32_t quad_of(const uint8_t *from, int64_t step, int64_t rows)
{
    uint32_t quad = from[0];

    if (rows == 4)
        return quad | (uint32_t)from[step] << 8 | (uint32_t)from[2 * step] << 16 | (uint32_t)from[3 * step] << 24;
    for (int64_t r = 1; r < rows; r++)
        quad |= (uint32_t)from[r * step] << 8 * r;
    return quad;
}

/* Packs the quads of a panel of `room` columns, of which `columns` exist; the others are arbitrary: their sums are
 * not stored. Rows of the matrix are n bytes apart. flip is XORed with each byte. */
static void pack_panel(const bytes_product *product, const uint8_t *matrix, uint8_t flip, int64_t columns, int64_t room,
                       uint8_t *to)
{
    enum { MANY = 16 }; /* columns that byte_set.interleave reads at once */
    const byte_set *set = product->set;
    uint32_t quads[BYTES_MOST_RESULTS];

    INLAY_CHECK(room <= set->width && set->width <= BYTES_MOST_RESULTS);
    for (int64_t k = 0; k < product->k; k += 4, matrix += 4 * product->n, to += 4 * room) {
        const int64_t rows = product->k - k < 4 ? product->k - k : 4, many = columns / MANY * MANY;
        const uint32_t flips = flip * 0x01010101u, kept = rows < 4 ? ~(~0u << 8 * rows) : ~0u; /* little-endian */
        uint32_t *const row = set->wide ? quads : (uint32_t *)(void *)to;

        if (many > 0)
            set->interleave(matrix, product->n, rows, many, (uint8_t *)row);
        if (flip != 0 || rows < 4)
            _Pragma("omp simd") for (int64_t i = 0; i < many; i++) row[i] = (row[i] ^ flips) & kept;
        for (int64_t i = many; i < columns; i++)
            row[i] = (quad_of(matrix + i, product->n, rows) ^ flips) & kept;
        for (int64_t i = 0; set->wide && i < columns; i++) {
            memcpy(to + 2 * i, quads + i, 2);
            memcpy(to + 2 * (room + i), (const char *)(quads + i) + 2, 2);
        }
    }
}

void bytes_pack_matrix(const bytes_product *product, const void *matrix, bool is_unsigned, int64_t first, int64_t past,
                       void *packed)
{
    static const int64_t start = 0;
    static const int32_t none[BYTES_MOST_RESULTS];
    const byte_set *set = product->set;
    int32_t *sums = (int32_t *)(void *)((char *)packed + product->packed_bytes) - product->room;
    _Alignas(64) uint8_t ones[2 * (DEEP + STRIP_END)];
    byte_product sum = { .input = ones,
                         .taps = &start,
                         .tap_count = 1,
                         .steps = set->wide ? 2 * product->quads : product->quads,
                         .flip = set->reads_signed,
                         .ending = { .kind = BYTE_SUMS, .first = none } };

    /* The sums of columns are a product by a row of ones, which has no offset. */
    if (!set->wide)
        memset(ones, 1, 4 * (size_t)product->quads);
    for (int64_t i = 0; set->wide && i < 4 * product->quads; i++)
        memcpy(ones + 2 * i, &(const int16_t){ 1 }, sizeof(int16_t));
    for (int64_t panel = first; panel < past; panel++) {
        const int64_t column = panel * set->width, left = product->n - column,
                      columns = left < set->width ? left : set->width,
                      room = (columns + set->lanes - 1) / set->lanes * set->lanes;
        uint8_t *to = (uint8_t *)packed + column * 4 * product->quads;

        pack_panel(product, (const uint8_t *)matrix + column, is_unsigned ? 128 : 0, columns, room, to);
        sum.weights = (const int8_t *)to;
        sum.columns = room;
        sum.lines = room / set->lanes;
        sum.output = sums + column;
        set->multiply(&sum, 1);
    }
}
