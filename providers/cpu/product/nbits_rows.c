/* Rows of floats by packed n-bit weights, see nbits_rows.h. */
#include "cpu/product/nbits_rows.h"
#include "cpu/weights/packs.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(nbits_share, "cpu_nbits_product cpu_experts cpu_weights+cpu_product");

enum { SPREAD_COUNT = NBITS_PARTS * NBITS_BESIDE * NBITS_COLUMNS }; /* see nbits_spread */

/* Row `row` as kernels read it. */
static const float *row_of(const nbits_call *call, int64_t row)
{
    const nbits_plan *plan = call->plan;

    if (plan->spreads)
        return (const float *)(void *)(call->scratch + plan->rows) + row * nbits_depth(&plan->shape);
    return call->input + row * call->a_row;
}

/* Bytes from a row's integers to the next row's, which suffice for all layouts. The rows of a tile are not a power of
 * two apart, since they would compete for the same sets of the first-level cache. */
static int64_t limb_row(const nbits_plan *plan)
{
    return 2 * nbits_depth(&plan->shape) + 64;
}

static int64_t limb_part(const nbits_call *call)
{
    return (call->blocks ? (int64_t)call->plan->mode : 2) * call->plan->shape.part;
}

static int8_t *limbs_of(const nbits_call *call, int64_t row)
{
    return (int8_t *)call->scratch + call->plan->limbs + row * limb_row(call->plan);
}

static void pad_row(const nbits_call *call, int64_t row)
{
    const nbits_shape *shape = &call->plan->shape;
    const float *from = call->input + row * call->a_row;
    float *to = (float *)(void *)(call->scratch + call->plan->rows) + row * nbits_depth(shape);

    for (int64_t block = 0; block < shape->blocks; block++, to += shape->padded) {
        const int64_t begin = block * shape->block,
                      count = shape->k - begin < shape->block ? shape->k - begin : shape->block;

        memcpy(to, from + begin, (size_t)count * sizeof *to);
        memset(to + count, 0, (size_t)(shape->padded - count) * sizeof *to);
    }
}

/* A model may request floats or 8 bits (accuracy_level 1 and 4; a model that requests less may get more). The session's
 * option applies to all other models. */
nbits_mode nbits_mode_of(const cpu_build *build, int64_t level)
{
    const cpu_state *state = build->state;

    if (level == 1 || !state->nbits->has_limbs || build->compiled->keep_last_bit)
        return NBITS_EXACT;
    return level == 4 && state->model_sets_limbs ? NBITS_FINE : (nbits_mode)state->limbs;
}

void nbits_reserve(nbits_plan *plan, uint64_t rows, uint64_t workers, uint64_t *bytes)
{
    const uint64_t depth = (uint64_t)nbits_depth(&plan->shape), parts = (uint64_t)nbits_parts(&plan->shape);
    const uint64_t whole = (rows + NBITS_TILE_ROWS - 1) / NBITS_TILE_ROWS * NBITS_TILE_ROWS; /* rows of whole tiles */
    const bool integers = plan->mode != NBITS_EXACT;

    plan->rows = packs_reserve(bytes, plan->spreads ? rows * depth * sizeof(float) : 0);
    plan->limbs =
        packs_reserve(bytes, integers ? (rows > NBITS_FEW_ROWS ? whole : rows) * (uint64_t)limb_row(plan) : 0);
    plan->factors = packs_reserve(bytes, integers ? whole * parts * sizeof(float) : 0);
    plan->sums = packs_reserve(bytes, integers ? whole * parts * sizeof(float) : 0);
    plan->starts = packs_reserve(bytes, integers ? whole * parts * sizeof(int32_t) : 0);
    plan->quantized = packs_reserve(bytes, rows);
    plan->panel_bytes = NBITS_BLOCK_BYTES + 3 * SPREAD_COUNT * sizeof(int32_t);
    plan->panels = packs_reserve(bytes, plan->blocks ? plan->panel_bytes * workers : 0);
}

void nbits_prepare_rows(const nbits_call *call, int64_t begin, int64_t end)
{
    const nbits_plan *plan = call->plan;
    const int64_t parts = nbits_parts(&plan->shape);

    for (int64_t row = begin; row < end; row++) {
        if (plan->spreads)
            pad_row(call, row);
        if (plan->mode != NBITS_EXACT)
            call->scratch[plan->quantized + (uint64_t)row] = plan->kernel->prepare(
                &plan->shape, plan->mode, plan->has_zeros ? NULL : &plan->zero, row_of(call, row),
                &(nbits_row){ .limbs = limbs_of(call, row),
                              .limbs_part = limb_part(call),
                              .factors = (float *)(void *)(call->scratch + plan->factors) + row * parts,
                              .sums = (float *)(void *)(call->scratch + plan->sums) + row * parts,
                              .starts = (int32_t *)(void *)(call->scratch + plan->starts) + row * parts,
                              .blocks = call->blocks,
                              .single = call->single });
    }
}

nbits_tile nbits_tile_of(const nbits_call *call, int64_t panel, int64_t panels, int64_t row, int64_t count, float *c,
                         int64_t c_row)
{
    const nbits_plan *plan = call->plan;
    const nbits_shape *shape = &plan->shape;
    const int64_t parts = nbits_parts(shape), at = panel * NBITS_COLUMNS,
                  scales = nbits_scale_count(shape) / shape->panels;

    INLAY_CHECK(panel >= 0 && panel < shape->panels && row >= 0);
    return (nbits_tile){ .shape = shape,
                         .weights = call->weights + nbits_weight_bytes(shape) / shape->panels * panel,
                         .scales = call->scales + scales * panel,
                         .zeros = call->zeros == NULL ? NULL : call->zeros + scales * panel,
                         .zero = plan->zero,
                         .rows = count,
                         .single = call->single,
                         .a = row_of(call, row),
                         .a_row = plan->spreads ? nbits_depth(shape) : call->a_row,
                         .limbs = limbs_of(call, row),
                         .limbs_row = limb_row(plan),
                         .limbs_part = limb_part(call),
                         .factors = (float *)(void *)(call->scratch + plan->factors) + row * parts,
                         .sums = (float *)(void *)(call->scratch + plan->sums) + row * parts,
                         .starts = (int32_t *)(void *)(call->scratch + plan->starts) + row * parts,
                         .c = c,
                         .c_row = c_row,
                         .columns = shape->n - at < panels * NBITS_COLUMNS ? shape->n - at : panels * NBITS_COLUMNS };
}

bool nbits_is_quantized(const nbits_call *call, int64_t row)
{
    return call->plan->mode != NBITS_EXACT && call->scratch[call->plan->quantized + (uint64_t)row] != 0;
}

void nbits_by_tile(const nbits_call *call, int64_t panel, int64_t row, int64_t count, float *c, int64_t c_row)
{
    const nbits_plan *plan = call->plan;
    const int64_t most = plan->mode == NBITS_EXACT && !plan->alone ? NBITS_FEW_ROWS : 1;
    bool all_quantized = true;

    for (int64_t i = 0; all_quantized && i < count; i++)
        all_quantized = nbits_is_quantized(call, row + i);
    for (int64_t i = 0, rows; i < count; i += rows) {
        rows = all_quantized || count - i < most ? count - i : most;

        const nbits_tile tile = nbits_tile_of(call, panel, 1, row + i, rows, c + i * c_row, c_row);

        plan->kernel->tile[nbits_is_quantized(call, row + i) ? plan->mode : NBITS_EXACT](&tile);
    }
}

void nbits_by_blocks(const nbits_call *call, int64_t panel, int64_t panels, int64_t first, int64_t last, char *buffer,
                     float *c, int64_t c_row)
{
    const nbits_plan *plan = call->plan;
    const int64_t parts = nbits_parts(&plan->shape);
    float *beside = (float *)(void *)(buffer + NBITS_BLOCK_BYTES);
    nbits_weight_block block = { .spread = { .weights = buffer,
                                             .starts = (int32_t *)(void *)beside,
                                             .scales = beside + SPREAD_COUNT,
                                             .zeros = beside + 2 * SPREAD_COUNT } };

    INLAY_CHECK(call->blocks == plan->kernel->block_rows && panels >= 1 && panels <= NBITS_BESIDE);
    for (int64_t part = 0; part < parts; part += NBITS_PARTS) {
        const int64_t count = parts - part < NBITS_PARTS ? parts - part : NBITS_PARTS;

        for (int64_t i = 0; i < NBITS_BESIDE; i++) { /* missing panels repeat the last one */
            const nbits_tile tile = nbits_tile_of(call, panel + (i < panels ? i : panels - 1), 1, first, 1, c, c_row);

            plan->kernel->spread(&tile, plan->mode, part, count, (int)i, &block.spread);
        }
        block.first = part;
        block.parts = count;
        block.tile = nbits_tile_of(call, panel, panels, first, NBITS_FEW_ROWS, c, c_row);
        for (int64_t row = first; row < last; row += NBITS_FEW_ROWS) {
            block.tile.rows = last - row < NBITS_FEW_ROWS ? last - row : NBITS_FEW_ROWS;
            plan->kernel->block(&block, plan->mode);
            block.tile.limbs += NBITS_FEW_ROWS * block.tile.limbs_row;
            block.tile.factors += NBITS_FEW_ROWS * parts;
            block.tile.sums += NBITS_FEW_ROWS * parts;
            block.tile.starts += NBITS_FEW_ROWS * parts;
            block.tile.c += NBITS_FEW_ROWS * block.tile.c_row;
        }
    }
    for (int64_t row = first; row < last; row++)
        for (int64_t i = 0; !nbits_is_quantized(call, row) && i < panels; i++)
            nbits_by_tile(call, panel + i, row, 1, c + (row - first) * c_row + i * NBITS_COLUMNS, c_row);
}

void nbits_unfold(const nbits_call *call, int64_t panel, float *out)
{
    const nbits_shape *shape = &call->plan->shape;

    for (int64_t i = 0; i < NBITS_GROUP && panel + i < shape->panels; i++) {
        const nbits_tile tile = nbits_tile_of(call, panel + i, 1, 0, 1, NULL, 0);

        call->plan->kernel->unfold(&tile, out + i * NBITS_COLUMNS, SGEMM_WIDTH);
    }
}

inlay_status nbits_share(const cpu_state *state, inlay_run *run, int64_t units, double ns, uint32_t threads,
                         inlay_status (*body)(void *, int64_t, int64_t, uint32_t), void *user)
{
    int64_t grain = 1;

    if (threads <= 1 || ns < WAKE_NS || units < 2)
        return body(user, 0, units, 0);
    while (grain < units && ns * (double)grain / (double)units < WAKE_NS / 4.0)
        grain *= 2;
    return state->host->parallel_for(state->host->ctx, run, units, grain, body, user);
}
