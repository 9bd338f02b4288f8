/* The cost of integer operators, as measured on one core with AVX-512 VNNI; see compile/cost.c. */
#include "simd/cpu_integers.h"
#include "cpu/weights/low_bit.h"
#include "cpu/quantized/bytes.h"
#include "cpu/quantized/quant.h"
#include "common/price.h"
#include "cpu/convolution/tiles.h"
#include "inlay/cost.h"
#include "inlay/graph_view.h"
#include "inlay/plugin.h"
#include <math.h>

#define BYTE_FLOPS_PER_NS 1250.0 /* four times the operations of floats */
#define SPARSE_BYTES_PER_NS 20.0
#define UNPACK_NS 15.0           /* a weight of n bits that a reader outside of the region gets as a float */
#define FLOAT_FLOPS_PER_NS 290.0 /* products of n-bit weights, ... */
#define EXPAND_NS 0.004          /* ... and the conversion of a weight to a float, for up to EXPAND_ROWS rows: */
#define EXPAND_BIT_NS 0.0032     /* for each of its bits, in addition; */
#define EXPAND_PANEL_NS 0.089    /* instead, for more rows, in a panel of floats */
#define EXPAND_ROWS 7.0
#define EXPAND_INTEGERS 3.0 /* how much faster products of integers convert weights */
#define REQUANTIZE_NS 0.03  /* per element of a convolution's output */
#define THIN_NS 0.05        /* depthwise: per output element */
#define THIN_TAP_NS 0.008   /* depthwise: per tap of an output element */
#define BYTES_PER_NS 16.0   /* elements quantized or dequantized */
#define CLIPPED_PER_NS 40.0
#define DYNAMIC_PER_NS 10.0 /* elements whose range is found first, ... */
#define DYNAMIC_NS 350.0    /* ... and the start */
#define RESULT_NS 0.044     /* a result of a product */
#define PRODUCT_ROW_NS 5.0  /* ... and a row of them, on the reference core, as the other times of products */
#define GROUP_TILE_NS 20.0  /* the start of a tile of one of several groups */
#define PACK_PER_NS 15.0    /* bytes of a computed matrix, ... */
#define PACK_NS 250.0       /* ... and the matrix */
#define GRAIN 16384.0       /* elements of a thread */
#define PRODUCT_ROWS 6      /* rows, and columns of panels, that are multiplied together */
#define PRODUCT_COLUMNS 64
#define ALONE_FLOPS 4e5   /* smaller products have one thread, ... */
#define COLUMNS_FLOPS 5e6 /* ... and those whose threads share the columns of several rows */
#define SHARED_ROWS 48.0  /* threads share the rows */
#define CALL_NS 60.0

/* The time of products relative to AVX-512 VNNI. AVX-VNNI has vectors of half the length; AVX2 and NEON widen bytes
 * first. arm64: estimated for two vector units from the numbers of instructions (tests/bench/arm.md). */
static double relative_product_time(void)
{
    if (cpu_uniform() != CPU_UNIFORM_NO)
        return 8;
    return cpu_has_vnni() ? 1 : cpu_has_i8mm() ? 2 : cpu_has_avx_vnni() || cpu_has_dot() ? 3 : 8;
}

/* The time of a product by AVX-512 VNNI and by tiles, as measured on one core of a Xeon with AMX of 2023, in which the
 * weights come from the second-level cache. A line is 16 columns. */
#define VNNI_QUAD_NS 0.57    /* per line and quad of the weights: at least; */
#define VNNI_ROW_QUAD_NS 0.2 /* per row, line and quad */
#define TILE_QUAD_NS 0.74    /* the same for a tile of up to 32 rows */
#define TILE_ROW_QUAD_NS 0.064
#define TILE_PANEL_NS 100.0 /* per tile and panel: sums are loaded and stored */
#define TILE_CALL_NS 100.0  /* registers are configured and released */
#define TILE_COPY_NS 0.7    /* per row, tap and two lines, if the quads of a tap do not fill rows of tiles */

/* The time of tiles relative to that of VNNI. */
static double relative_tile_time(double rows, double taps, double quads, double columns)
{
    const double tile_rows = 32, row_quads = 16, lines = ceil(columns / 16), count = ceil(rows / tile_rows);
    const double whole = ceil(quads / row_quads) * row_quads;
    const double vnni = lines * taps * quads * fmax(VNNI_QUAD_NS, rows * VNNI_ROW_QUAD_NS);
    double tiles = lines * taps * whole * count * fmax(TILE_QUAD_NS, rows / count * TILE_ROW_QUAD_NS);

    tiles += count * ceil(lines / 4) * TILE_PANEL_NS + TILE_CALL_NS;
    if (whole > quads)
        tiles += rows * taps * ceil(lines / 2) * TILE_COPY_NS;
    return tiles / vnni;
}

const byte_tiles *bytes_tiles_for(int64_t rows, int64_t taps, int64_t quads, int64_t columns)
{
    const byte_tiles *tiles = byte_tiles_of_cpu();

    return tiles != NULL && rows > 0 && columns > 0 && quads > 0 &&
                   relative_tile_time((double)rows, (double)taps, (double)quads, (double)columns) < 1
               ? tiles
               : NULL;
}

const char *bytes_why(const char *text)
{
    return cpu_level_of_integers() >= CPU_AMX && tile_problem() != NULL ? tile_problem() : text;
}

static double count_of(const inlay_cost_request *request, const uint32_t *list, uint32_t count, uint32_t i)
{
    const inlay_value_state *state;
    double n = 1;

    if (i >= count || list[i] == INLAY_NONE || list[i] >= request->value_count)
        return 0;
    state = INLAY_AT(inlay_value_state, request->values, request->value_stride, list[i]);
    if (state->rank == INLAY_RANK_UNKNOWN)
        return 0;
    for (uint32_t d = 0; d < state->rank; d++)
        n *= state->dims[d] < 0 ? 1 : (double)state->dims[d];
    return n;
}

/* The last axis of the first output: `known`, or as requested. */
static double last_axis(const inlay_cost_request *request, const inlay_node_info *info, inlay_dim known)
{
    const inlay_value_state *state =
        INLAY_AT(inlay_value_state, request->values, request->value_stride, info->outputs[0]);

    return known.kind == INLAY_DIM_FIXED ? (double)known.value
           : state->rank == INLAY_RANK_UNKNOWN || state->rank < 1 || state->dims[state->rank - 1] < 1
               ? 1
               : (double)state->dims[state->rank - 1];
}

/* Threads that share columns read the whole input from the cache of another core, which takes microseconds. */
double bytes_alone_flops(double rows)
{
    return rows > 1 && rows < SHARED_ROWS ? COLUMNS_FLOPS / relative_product_time() : ALONE_FLOPS;
}

/* The threads that share a product of bytes, on average (quant_rows.c). */
static double product_threads(double rows, double columns, double depth, double threads)
{
    const double tiles = ceil(rows / PRODUCT_ROWS), panels = columns / PRODUCT_COLUMNS;
    tiles_cut cut;

    if (threads <= 1 || 2 * rows * columns * depth <= bytes_alone_flops(rows) || tiles < 1)
        return 1;
    tiles_find_cut((int64_t)tiles, (int64_t)(PRODUCT_ROWS * depth), panels, (int64_t)ceil(depth / 4), (uint32_t)threads,
                   &cut);
    return fmax(1, tiles * panels /
                       (ceil(ceil(tiles / (double)cut.block) * ceil(ceil(panels) / (double)cut.chunk) / threads) *
                        (double)cut.block * fmin((double)cut.chunk, panels)));
}

double cpu_expand_ns(double weights, double bits, double rows)
{
    return weights * (rows > EXPAND_ROWS ? EXPAND_PANEL_NS : EXPAND_NS + EXPAND_BIT_NS * bits);
}

void cpu_quant_cost(const cpu_op *op, const inlay_cost_request *request, const inlay_node_info *info, inlay_cost *cost,
                    double *out_multiply_ns, double *out_weight_bytes)
{
    const cpu_family *family = op->row->family;
    double x = count_of(request, info->inputs, info->input_count, 0),
           threads = request->max_threads > 0 ? request->max_threads : 1, share = threads;
    double y = count_of(request, info->outputs, info->output_count, 0), flops = y, rate = BYTES_PER_NS, weights = 0,
           more = 0;

    if (family->kind == CPU_FAMILY_NARROW) {
        cost->bytes_read += (uint64_t)x;
        cost->ns += y * LOW_BIT_NS / threads + CALL_NS;
        return;
    }
    if (family->kind == CPU_FAMILY_WEIGHTS || family->kind == CPU_FAMILY_SPARSE || family->kind == CPU_FAMILY_HALVES ||
        family->kind == CPU_FAMILY_BLOCKS) { /* the cost of the GEMM includes reading the packed weights */
        cost->ns += CALL_NS;
        /* readers outside of the region get copies in each run */
        cost->leave_ns += family->kind == CPU_FAMILY_WEIGHTS ? y * UNPACK_NS : 4 * y / SPARSE_BYTES_PER_NS;
        return;
    }
    if (family->kind == CPU_FAMILY_NBITS_PRODUCT) {
        weights = (double)op->nbits.k * (double)op->nbits.n * op->nbits.bits / 8;
        flops = 2 * y * (double)op->nbits.k;
        rate = FLOAT_FLOPS_PER_NS;
        more = cpu_expand_ns((double)op->nbits.k * (double)op->nbits.n, op->nbits.bits, y / (double)op->nbits.n);
        if (op->size == 4) /* accuracy_level: products of integers */
            more /= EXPAND_INTEGERS;
    } else if (family->kind == CPU_FAMILY_EXPERTS) {
        const double bytes = op->experts.bits == 0 ? 4 : 1, per = op->experts.bits == 0 ? 1 : 8.0 / op->experts.bits;
        const double count = (double)op->experts.count;
        const double pairs = count_of(request, info->inputs, info->input_count, 1) / count * (double)op->experts.k;

        for (uint32_t layer = 0, at = 2; layer < (op->experts.gated ? 3 : 2); layer++) {
            const double elements = count_of(request, info->inputs, info->input_count, at);

            flops += 2 * pairs * elements * per / count;
            weights += elements * bytes * fmin(1, pairs / count);
            if (op->experts.bits > 0)
                more +=
                    cpu_expand_ns(elements * per * fmin(1, pairs / count), op->experts.bits, fmax(1, pairs / count));
            at += op->experts.bits == 0 ? 2 : 3;
        }
        rate = FLOAT_FLOPS_PER_NS;
    } else if (family->kind == CPU_FAMILY_INT8_CONV || family->kind == CPU_FAMILY_INT8_PRODUCT) {
        bool conv = family->kind == CPU_FAMILY_INT8_CONV;
        uint32_t at = strncmp(op->row->op_type, "QLinear", 7) == 0 ? 3 : 1;
        const inlay_value_info *w = inlay_graph_value(request->graph, info->inputs[at]);
        const double columns = conv ? (double)w->dims[0].value : last_axis(request, info, w->dims[w->rank - 1]);
        double per = (double)w->dims[conv ? 1 : w->rank - 2].value;

        for (uint32_t i = 0; conv && i < op->window.spatial; i++)
            per *= (double)op->window.kernel[i];
        weights = count_of(request, info->inputs, info->input_count, at);
        flops = 2 * y * per;
        rate = BYTE_FLOPS_PER_NS / relative_product_time();
        if (!conv && y > 0 && per > 0) { /* vectors of 16 columns, and four terms */
            share = product_threads(y / columns, columns, per, threads);
            flops *= ceil(columns / 16) * 16 / columns * ceil(per / 4) * 4 / per;
            more = y * RESULT_NS + y / columns * PRODUCT_ROW_NS;
            if ((w->flags & INLAY_VALUE_CONSTANT) == 0) /* packed in each run */
                more += weights / PACK_PER_NS + weights / (columns * per) * PACK_NS;
        }
        if (byte_tiles_of_cpu() != NULL && y > 0 && per > 0 && (!conv || op->window.group == 1))
            rate /= fmin(1, relative_tile_time(y / columns, 1, ceil(per / 4), columns));
        more = conv ? y * REQUANTIZE_NS * relative_product_time() : more;
        if (conv && op->window.group > 1 && w->dims[1].value == 1 && w->dims[0].value == op->window.group) {
            rate = 2 / THIN_TAP_NS / sqrt(relative_product_time());
            more = y * THIN_NS * sqrt(relative_product_time());
        } else if (conv && op->window.group > 1) { /* the tiles of each group */
            const double groups = (double)op->window.group, filters = columns / groups, in = (double)w->dims[1].value;

            flops *= ceil(filters / 16) * 16 / filters * ceil(in / 4) * 4 / in;
            more += groups * y / columns / PRODUCT_ROWS * GROUP_TILE_NS;
        }
    } else if (family->kind == CPU_FAMILY_VIEW || family->kind == CPU_FAMILY_TRANSPOSE ||
               family->kind == CPU_FAMILY_INT_CAST || family->kind == CPU_FAMILY_INT_BIAS) {
        flops = 0; /* fused into a GEMM, or no work */
    }
    if (family->kind == CPU_FAMILY_DYNAMIC) {
        rate = DYNAMIC_PER_NS;
        more = DYNAMIC_NS;
    }
    if (family->kind == CPU_FAMILY_BYTE_CLIP)
        rate = CLIPPED_PER_NS;
    if (weights == 0)
        share = price_loop_threads(y, GRAIN, threads);
    cost->flops += flops;
    cost->bytes_read += (uint64_t)(x + weights);
    cost->bytes_written += (uint64_t)y;
    if (weights > 0)
        *out_multiply_ns = (flops / rate + more) / share;
    else
        cost->ns += flops / rate / share + more;
    *out_weight_bytes = weights;
    cost->ns += CALL_NS;
}
