/* GEMM with n-bit weights (nbits.h), which stay packed. Few rows are multiplied by the packed weights directly. For
 * many rows, panels of weights are expanded in the cache, to floats or to integers. */
#include "cpu/product/dense.h"
#include "cpu/choice/kernels.h"
#include "inlay/check.h"
#include "cpu/product/product.h"
#include "cpu/weights/nbits_weights.h"
#include "cpu/weights/read.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` leave these out. */
OPTIONAL_IF_CALLED(nbits_lower);

enum {
    MANY_ROWS = 8, /* from this many rows on a panel is expanded, if activations stay floats */
    FINE_ROWS =
        16, /* from this many rows on, NBITS_FINE takes longer than floats if the CPU has no kernels for many rows */
    GROUP = SGEMM_WIDTH / NBITS_COLUMNS, /* panels that are computed together */
    ROW_BLOCK = 32,                      /* rows whose integers stay near the core while all weights are read */
    BLOCK_ROWS = 128                     /* the same if panels are expanded to integers */
};
#define BYTES_PER_NS 20.0 /* packed weights, for one row */
#define INTEGERS_PER_NS 60.0
#define FLOATS_PER_NS 30.0

typedef struct nbits_call {
    const struct dense *dense;
    const float *input, *scales, *zeros;
    const uint8_t *weights;
    char *scratch;
    float *output;
    const float *bias;
    sgemm_post posts[CPU_MAX_POSTS + 1];
} nbits_call;

/* Row `row` as kernels read it. */
static const float *row_of(const nbits_call *call, int64_t row)
{
    const nbits_plan *plan = &call->dense->bits;

    if (plan->spreads)
        return (const float *)(void *)(call->scratch + plan->rows) + row * nbits_depth(&plan->shape);
    return call->input + row * call->dense->job.a_row;
}

/* Bytes of a row's integers. */
static int64_t limb_bytes(const nbits_plan *plan)
{
    return (plan->blocks ? (int64_t)plan->mode : 2) * nbits_depth(&plan->shape);
}

static int8_t *limbs_of(const nbits_call *call, int64_t row)
{
    const nbits_plan *plan = &call->dense->bits;

    return (int8_t *)call->scratch + plan->limbs + row * limb_bytes(plan);
}

static void pad_row(const nbits_call *call, int64_t row)
{
    const nbits_shape *shape = &call->dense->bits.shape;
    const float *from = call->input + row * call->dense->job.a_row;
    float *to = (float *)(void *)(call->scratch + call->dense->bits.rows) + row * nbits_depth(shape);

    for (int64_t block = 0; block < shape->blocks; block++, to += shape->padded) {
        const int64_t begin = block * shape->block,
                      count = shape->k - begin < shape->block ? shape->k - begin : shape->block;

        memcpy(to, from + begin, (size_t)count * sizeof *to);
        memset(to + count, 0, (size_t)(shape->padded - count) * sizeof *to);
    }
}

static inlay_status prepare_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const nbits_call *call = user;
    const nbits_plan *plan = &call->dense->bits;
    const int64_t parts = nbits_parts(&plan->shape);

    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        if (plan->spreads)
            pad_row(call, row);
        if (plan->mode != NBITS_EXACT)
            call->scratch[plan->quantized + (uint64_t)row] = plan->kernel->prepare(
                &plan->shape, plan->mode, plan->has_zeros ? NULL : &plan->zero, row_of(call, row),
                &(nbits_row){ .limbs = limbs_of(call, row),
                              .limbs_part = limb_bytes(plan) / parts,
                              .factors = (float *)(void *)(call->scratch + plan->factors) + row * parts,
                              .sums = (int32_t *)(void *)(call->scratch + plan->sums) + row * parts,
                              .starts = plan->blocks ? (int32_t *)(void *)(call->scratch + plan->starts) + row * parts
                                                     : NULL });
    }
    return INLAY_OK;
}

/* The tile of rows [row, row + count) by `panels` panels from `panel` on. */
static nbits_tile tile_of(const nbits_call *call, int64_t panel, int64_t panels, int64_t row, int64_t count)
{
    const nbits_plan *plan = &call->dense->bits;
    const nbits_shape *shape = &plan->shape;
    const int64_t parts = nbits_parts(shape), at = panel * NBITS_COLUMNS, scales = shape->blocks * NBITS_COLUMNS;

    INLAY_CHECK(panel >= 0 && panel < shape->panels && row >= 0 && row < call->dense->job.m);
    return (nbits_tile){ .shape = shape,
                         .weights = call->weights + nbits_weight_bytes(shape) / shape->panels * panel,
                         .scales = call->scales + scales * panel,
                         .zeros = call->zeros == NULL ? NULL : call->zeros + scales * panel,
                         .zero = plan->zero,
                         .rows = count,
                         .a = row_of(call, row),
                         .a_row = plan->spreads ? nbits_depth(shape) : call->dense->job.a_row,
                         .limbs = limbs_of(call, row),
                         .limbs_row = limb_bytes(plan),
                         .limbs_part = limb_bytes(plan) / parts,
                         .factors = (float *)(void *)(call->scratch + plan->factors) + row * parts,
                         .sums = (int32_t *)(void *)(call->scratch + plan->sums) + row * parts,
                         .c = call->output + row * call->dense->job.c_row + at,
                         .c_row = call->dense->job.c_row,
                         .columns = shape->n - at < panels * NBITS_COLUMNS ? shape->n - at : panels * NBITS_COLUMNS };
}

static bool is_quantized(const nbits_call *call, int64_t row)
{
    return call->scratch[call->dense->bits.quantized + (uint64_t)row] != 0;
}

/* Multiplies rows [row, row + count), at most a tile, by one panel. Rows that cannot be quantized are summed as floats,
 * without an effect on the other rows. */
static void multiply(const nbits_call *call, int64_t panel, int64_t row, int64_t count)
{
    const nbits_plan *plan = &call->dense->bits;
    bool all_quantized = plan->mode != NBITS_EXACT;

    for (int64_t i = 0; all_quantized && i < count; i++)
        all_quantized = is_quantized(call, row + i);
    for (int64_t i = 0; i < count;) {
        const int64_t rows = all_quantized || plan->mode == NBITS_EXACT ? count : 1;
        const nbits_tile tile = tile_of(call, panel, 1, row + i, rows);

        plan->kernel->tile[plan->mode != NBITS_EXACT && is_quantized(call, row + i) ? plan->mode : NBITS_EXACT](&tile);
        i += rows;
    }
}

static void finish(const nbits_call *call, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    const sgemm_job *job = &call->dense->job;
    float *output = call->output + row * job->c_row + column;

    if (call->bias != NULL)
        job->kernel->post(&(sgemm_post){ .fn = SGEMM_ADD, .other = call->bias + column, .col = 1 }, output, job->c_row,
                          rows, columns);
    for (uint32_t post_index = 0; post_index < job->post_count; post_index++) {
        sgemm_post post = call->posts[post_index];

        if (post.other != NULL)
            post.other += row * post.row + column * post.col;
        job->kernel->post(&post, output, job->c_row, rows, columns);
    }
}

static int64_t groups_of(const nbits_shape *shape)
{
    return (shape->panels + GROUP - 1) / GROUP;
}

/* Units: groups of panels for a block of rows, then for the next block. */
static inlay_status packed_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const nbits_call *call = user;
    const nbits_shape *shape = &call->dense->bits.shape;
    const int64_t groups = groups_of(shape);

    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t above = unit / groups * ROW_BLOCK,
                      m = call->dense->job.m < above + ROW_BLOCK ? call->dense->job.m : above + ROW_BLOCK;
        const int64_t first = unit % groups * GROUP,
                      last = first + GROUP < shape->panels ? first + GROUP : shape->panels;
        const int64_t at = first * NBITS_COLUMNS, columns = shape->n - at < SGEMM_WIDTH ? shape->n - at : SGEMM_WIDTH;

        for (int64_t row = above, rows; row < m; row += rows) {
            rows = m - row < NBITS_ROWS ? m - row : NBITS_ROWS;
            for (int64_t panel = first; panel < last; panel++)
                multiply(call, panel, row, rows);
            finish(call, row, rows, at, columns);
        }
    }
    return INLAY_OK;
}

/* Units: sets of neighbouring panels for a block of rows, then for the next block. */
static inlay_status block_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const nbits_call *call = user;
    const nbits_plan *plan = &call->dense->bits;
    const nbits_shape *shape = &plan->shape;
    const int64_t groups = (shape->panels + NBITS_BESIDE - 1) / NBITS_BESIDE, parts = nbits_parts(shape);
    char *buffer = call->scratch + plan->panels + worker % call->dense->workers * plan->panel_bytes;
    int32_t *starts = (int32_t *)(void *)(buffer + nbits_block_bytes(plan->mode));
    nbits_weight_block block = { .weights = buffer, .w_starts = starts };

    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t above = unit / groups * BLOCK_ROWS, panel = unit % groups * NBITS_BESIDE;
        const int64_t m = call->dense->job.m < above + BLOCK_ROWS ? call->dense->job.m : above + BLOCK_ROWS;
        const int64_t panels = shape->panels - panel < NBITS_BESIDE ? shape->panels - panel : NBITS_BESIDE;

        for (int64_t first = 0; first < parts; first += NBITS_PARTS) {
            const int64_t count = parts - first < NBITS_PARTS ? parts - first : NBITS_PARTS;

            for (int64_t i = 0; i < NBITS_BESIDE; i++) { /* missing panels repeat the last one */
                const nbits_tile tile = tile_of(call, panel + (i < panels ? i : panels - 1), 1, above, 1);

                plan->kernel->spread(&tile, plan->mode, first, count, (int)i, buffer, starts);
            }
            block.first = first;
            block.parts = count;
            block.tile = tile_of(call, panel, panels, above, NBITS_ROWS);
            block.starts = (int32_t *)(void *)(call->scratch + plan->starts) + above * parts;
            for (int64_t row = above; row < m; row += NBITS_ROWS) {
                block.tile.rows = m - row < NBITS_ROWS ? m - row : NBITS_ROWS;
                plan->kernel->block(&block, plan->mode);
                block.tile.limbs += NBITS_ROWS * block.tile.limbs_row;
                block.tile.factors += NBITS_ROWS * parts;
                block.tile.sums += NBITS_ROWS * parts;
                block.starts += NBITS_ROWS * parts;
                block.tile.c += NBITS_ROWS * block.tile.c_row;
            }
        }
        for (int64_t row = above; row < m; row++)
            for (int64_t i = 0; !is_quantized(call, row) && i < panels; i++)
                multiply(call, panel + i, row, 1);
        for (int64_t row = above; row < m; row += NBITS_ROWS)
            finish(call, row, m - row < NBITS_ROWS ? m - row : NBITS_ROWS, panel * NBITS_COLUMNS, block.tile.columns);
    }
    return INLAY_OK;
}

/* Units: panels for a block of rows, then for the next block. */
static inlay_status tile_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const nbits_call *call = user;
    const nbits_plan *plan = &call->dense->bits;
    const int64_t panels = plan->shape.panels;

    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t above = unit / panels * BLOCK_ROWS, panel = unit % panels;
        const int64_t m = call->dense->job.m < above + BLOCK_ROWS ? call->dense->job.m : above + BLOCK_ROWS;
        const nbits_tile tile = tile_of(call, panel, 1, above, m - above);

        plan->tiles->panel(&tile, plan->mode);
        for (int64_t row = above; row < m; row++)
            if (!is_quantized(call, row))
                multiply(call, panel, row, 1);
        for (int64_t row = above; row < m; row += NBITS_ROWS)
            finish(call, row, m - row < NBITS_ROWS ? m - row : NBITS_ROWS, panel * NBITS_COLUMNS, tile.columns);
    }
    return INLAY_OK;
}

static inlay_status unfolded_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const nbits_call *call = user;
    const nbits_plan *plan = &call->dense->bits;
    const nbits_shape *shape = &plan->shape;
    const int64_t scales = shape->blocks * NBITS_COLUMNS;
    float *panel = (float *)(void *)(call->scratch + plan->panels + worker % call->dense->workers * plan->panel_bytes);

    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t column = unit * SGEMM_WIDTH;
        sgemm_post posts[CPU_MAX_POSTS + 1];
        sgemm_job job = call->dense->job;

        job.n = shape->n - column < SGEMM_WIDTH ? shape->n - column : SGEMM_WIDTH;
        for (int64_t i = unit * GROUP; i < (unit + 1) * GROUP && i < shape->panels; i++) {
            const nbits_tile tile = { .shape = shape,
                                      .weights = call->weights + nbits_weight_bytes(shape) / shape->panels * i,
                                      .scales = call->scales + scales * i,
                                      .zeros = call->zeros == NULL ? NULL : call->zeros + scales * i,
                                      .zero = plan->zero };

            plan->kernel->unfold(&tile, panel + (i - unit * GROUP) * NBITS_COLUMNS, SGEMM_WIDTH);
        }
        job.a = call->input;
        job.b = panel;
        job.width = job.b_step = SGEMM_WIDTH;
        job.bias = call->bias == NULL ? NULL : call->bias + column;
        job.c = call->output + column;
        job.posts = posts;
        for (uint32_t i = 0; i < job.post_count; i++) {
            posts[i] = call->posts[i];
            if (posts[i].other != NULL)
                posts[i].other += column * posts[i].col;
        }
        sgemm_run(&job, 0, sgemm_units(&job));
    }
    return INLAY_OK;
}

static double estimate_ns(const struct dense *dense)
{
    const double count = (double)dense->job.n * (double)dense->job.k, bytes = count * dense->bits.shape.bits / 8;
    const double work =
        (double)dense->job.m * count / (dense->bits.mode != NBITS_EXACT ? INTEGERS_PER_NS : FLOATS_PER_NS);

    return bytes / BYTES_PER_NS > work ? bytes / BYTES_PER_NS : work;
}

static inlay_status run_shared(const cpu_state *state, inlay_run *run, int64_t units, double ns, uint32_t threads,
                               inlay_status (*body)(void *, int64_t, int64_t, uint32_t), nbits_call *call)
{
    int64_t grain = 1;

    if (threads <= 1 || ns < WAKE_NS || units < 2)
        return body(call, 0, units, 0);
    while (grain < units && ns * (double)grain / (double)units < WAKE_NS / 4.0)
        grain *= 2;
    return state->host->parallel_for(state->host->ctx, run, units, grain, body, call);
}

/* args: input, weights, scales, zero points if there are any, scratch memory, then as by dense_emit. */
static inlay_status run_nbits(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const struct dense *dense = (const struct dense *)(const void *)native;
    const nbits_plan *plan = &dense->bits;
    nbits_call call = { .dense = dense,
                        .input = args[0],
                        .weights = args[1],
                        .scales = args[2],
                        .zeros = plan->has_zeros ? args[3] : NULL,
                        .scratch = args[plan->scratch_arg],
                        .output = args[dense->arg_count - 1],
                        .bias = dense->biased ? args[dense->bias_arg] : NULL };
    const double ns = estimate_ns(dense);
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; i < dense->job.post_count; i++) {
        call.posts[i] = dense->posts[i].post;
        if (dense->posts[i].arg != INLAY_NONE)
            call.posts[i].other = args[dense->posts[i].arg];
    }
    if (plan->unfolds)
        return run_shared(state, run, groups_of(&plan->shape), ns, threads, unfolded_units, &call);
    if (plan->tiles != NULL) { /* factors and sums of the rows after the last */
        const size_t count = (size_t)((-dense->job.m & (NBITS_TILE_ROWS - 1)) * nbits_parts(&plan->shape));
        const uint64_t at = (uint64_t)(dense->job.m * nbits_parts(&plan->shape));

        memset(call.scratch + plan->factors + at * sizeof(float), 0, count * sizeof(float));
        memset(call.scratch + plan->sums + at * sizeof(int32_t), 0, count * sizeof(int32_t));
    }
    if (plan->spreads || plan->mode != NBITS_EXACT)
        status = run_shared(state, run, dense->job.m, 2.0 * (double)(dense->job.m * dense->job.k), threads,
                            prepare_rows, &call);
    if (status != INLAY_OK)
        return status;
    if (plan->tiles != NULL)
        return run_shared(state, run, plan->shape.panels * ((dense->job.m + BLOCK_ROWS - 1) / BLOCK_ROWS), ns, threads,
                          tile_units, &call);
    if (plan->blocks)
        return run_shared(state, run,
                          (plan->shape.panels + NBITS_BESIDE - 1) / NBITS_BESIDE *
                              ((dense->job.m + BLOCK_ROWS - 1) / BLOCK_ROWS),
                          ns, threads, block_units, &call);
    return run_shared(state, run, groups_of(&plan->shape) * ((dense->job.m + ROW_BLOCK - 1) / ROW_BLOCK), ns, threads,
                      packed_units, &call);
}

static uint64_t reserve(uint64_t *bytes, uint64_t more)
{
    const uint64_t at = *bytes;

    *bytes += (more + 63) / 64 * 64;
    return at;
}

/* A model may request floats or 8 bits (accuracy_level 1 and 4 of MatMulNBits; a model that requests less may get
 * more). The session's option applies to all other models. */
static nbits_mode mode_of(const cpu_build *build, const cpu_op *op)
{
    const int64_t level = op->row->family == &cpu_nbits_product ? op->size : 0;

    if (level == 1 || !build->state->nbits->has_limbs || build->compiled->keep_last_bit)
        return NBITS_EXACT;
    return level == 4 && build->state->model_sets_limbs ? NBITS_FINE : (nbits_mode)build->state->limbs;
}

static inlay_status read_rows(cpu_build *build, struct dense *dense, cpu_place *input)
{
    inlay_status status = cpu_read_strided(build, build->op->in[0], input);

    dense->job.a_row = dense->job.k;
    if (status == INLAY_OK && !layout_has_rows(&input->layout, &dense->job.a_row)) {
        dense->job.a_row = dense->job.k;
        status = cpu_read_plain(build, build->op->in[0], input);
    }
    return status;
}

static inlay_status take_scratch(cpu_build *build, struct dense *dense, dense_args *args, cpu_place *scratch)
{
    nbits_plan *plan = &dense->bits;
    const uint64_t m = (uint64_t)dense->job.m, depth = (uint64_t)nbits_depth(&plan->shape),
                   parts = (uint64_t)nbits_parts(&plan->shape);
    const uint64_t rows = (m + NBITS_TILE_ROWS - 1) / NBITS_TILE_ROWS * NBITS_TILE_ROWS; /* of factors and sums */
    uint64_t bytes = 64;
    inlay_status status;
    int64_t count;
    tensor_layout layout;

    if (plan->unfolds) {
        plan->panel_bytes = (uint64_t)dense->job.k * SGEMM_WIDTH * sizeof(float);
        plan->panels = reserve(&bytes, plan->panel_bytes * dense->workers);
    } else {
        plan->rows = reserve(&bytes, plan->spreads ? m * depth * sizeof(float) : 0);
        plan->limbs = reserve(&bytes, plan->mode != NBITS_EXACT ? m * (uint64_t)limb_bytes(plan) : 0);
        plan->factors = reserve(&bytes, plan->mode != NBITS_EXACT ? rows * parts * sizeof(float) : 0);
        plan->sums = reserve(&bytes, plan->mode != NBITS_EXACT ? rows * parts * sizeof(int32_t) : 0);
        plan->starts = reserve(&bytes, plan->blocks ? m * parts * sizeof(int32_t) : 0);
        plan->quantized = reserve(&bytes, m);
        plan->panel_bytes =
            (uint64_t)nbits_block_bytes(plan->mode) + NBITS_PARTS * NBITS_BESIDE * NBITS_COLUMNS * sizeof(int32_t);
        plan->panels = reserve(&bytes, plan->blocks ? plan->panel_bytes * dense->workers : 0);
    }
    count = (int64_t)bytes;
    layout_plain(&layout, 1, &count);
    layout.type = ELEMENT_UINT8;
    status = cpu_new_place(build, &layout, scratch);
    plan->scratch_arg = args->count;
    args->list[args->count++] = scratch;
    return status;
}

static const char *const bounds[] = {
    [NBITS_EXACT] = "activations stay floats",
    [NBITS_BYTE] = "activations of 8 bits: each is off by at most 1/254 of the largest of its 32 neighbours",
    [NBITS_FINE] = "activations of 16 bits: each is off by at most 2^-16 of the largest of its 32 neighbours",
};

/* Returns the bias; INLAY_NONE: none. If C of Gemm is not a row, it becomes a binary post-op of the group. */
static uint32_t find_bias(const cpu_build *build, const cpu_op *op, cpu_group *group, int64_t n)
{
    const bool product = op->row->family == &cpu_product;
    const uint32_t at = product ? 2 : 5, value = op->in_count > at ? op->in[at] : INLAY_NONE;

    if (value == INLAY_NONE)
        return group->bias;
    if (!product || (build->compiled->values[value].constant != INLAY_NONE && cpu_count(build, value) == n &&
                     build->ranks[value] >= 1 && build->dims[value][build->ranks[value] - 1] == n))
        return value;
    memmove(group->posts + 1, group->posts, group->post_count * sizeof *group->posts);
    group->posts[0] = (cpu_post){ .kind = CPU_POST_BINARY, .function = FUNCTION_ADD, .other = value };
    group->post_count++;
    return INLAY_NONE;
}

inlay_status nbits_lower(cpu_build *build, const cpu_group *group)
{
    struct dense dense = { .native.run = run_nbits, .batch = 1, .b_count = 1 };
    nbits_plan *plan = &dense.bits;
    dense_args args = { .count = 3 };
    const cpu_op *op = build->op;
    cpu_place input, weights, scales, zeros, scratch;
    cpu_group own = *group;
    inlay_status status;
    uint32_t bias;
    cpu_nbits nbits;

    (void)nbits_weights_of(build, &nbits, &plan->shape);
    if (build->state->nbits == NULL)
        return inlay_fail(build->diag, INLAY_UNSUPPORTED, "node '%s': no kernel for packed weights supports this CPU",
                          op->name);
    if (build->dims[op->in[0]][build->ranks[op->in[0]] - 1] != nbits.k)
        return inlay_fail(build->diag, INLAY_SHAPE_MISMATCH, "node '%s': rows have %lld elements, weights %lld",
                          op->name, (long long)build->dims[op->in[0]][build->ranks[op->in[0]] - 1], (long long)nbits.k);
    plan->on = true;
    plan->kernel = build->state->nbits;
    plan->mode = mode_of(build, op);
    plan->zero = nbits.all;
    plan->has_zeros = nbits.zero != INLAY_NONE;
    plan->spreads = nbits_depth(&plan->shape) != nbits.k;
    dense.workers = build->instance->threads > 0 ? build->instance->threads : 1;
    dense.job = (sgemm_job){ .kernel = sgemm_kernel_best(),
                             .m = cpu_count(build, op->in[0]) / nbits.k,
                             .n = nbits.n,
                             .k = nbits.k,
                             .chain = sgemm_chain(nbits.k, build->state->strict),
                             .c_row = nbits.n };
    if (plan->mode == NBITS_FINE && dense.job.m >= FINE_ROWS && plan->kernel->many == 0 && !build->state->reproducible)
        plan->mode = NBITS_EXACT;
    plan->tiles = plan->mode != NBITS_EXACT && !build->state->reproducible ? nbits_tiles_of_cpu() : NULL;
    if (plan->tiles != NULL && dense.job.m < plan->tiles->many)
        plan->tiles = NULL;
    plan->blocks =
        plan->tiles == NULL && plan->mode != NBITS_EXACT && plan->kernel->many > 0 && dense.job.m >= plan->kernel->many;
    plan->unfolds = plan->mode == NBITS_EXACT && dense.job.m >= MANY_ROWS && !build->state->reproducible;
    INLAY_TRY(read_rows(build, &dense, &input));
    INLAY_TRY(nbits_read(build, &nbits, &weights, &scales, &zeros));
    args.list[0] = &input;
    args.list[1] = &weights;
    args.list[2] = &scales;
    if (plan->has_zeros)
        args.list[args.count++] = &zeros;
    INLAY_TRY(take_scratch(build, &dense, &args, &scratch));
    bias = find_bias(build, op, &own, nbits.n);
    INLAY_TRY(dense_emit(build, &own, &dense, &args, bias));
    status = kernel_remember(build, &(kernel_choice){ .op = own.op,
                                                      .count = 1,
                                                      .source = KERNEL_ONLY,
                                                      .why = bounds[plan->mode],
                                                      .kernel = { (uint8_t)(KERNEL_BITS_EXACT + plan->mode) } });
done:
    return status;
}

const cpu_family cpu_nbits_product = { .name = "GEMM with n-bit weights",
                                       .parse = nbits_parse,
                                       .lower = nbits_lower,
                                       .takes_posts = true,
                                       .takes_bias = true };
