/* GEMM with n-bit weights (nbits.h), which stay packed. Few rows are multiplied by the packed weights directly. For
 * many rows, panels of weights are expanded in the cache, to floats or to integers. */
#include "cpu/product/dense.h"
#include "cpu/choice/kernels.h"
#include "inlay/check.h"
#include "cpu/product/nbits_rows.h"
#include "cpu/product/product.h"
#include "cpu/weights/nbits_weights.h"
#include "cpu/weights/packs.h"
#include "cpu/weights/read.h"
#include "simd/optional.h"

/* Programs of `inlay bundle` omit these. */
OPTIONAL_IF_CALLED(nbits_lower);

enum {
    ROW_BLOCK = 32,  /* rows whose integers stay near the core while all weights are read */
    BLOCK_ROWS = 128 /* the same if panels are expanded to integers */
};

typedef struct dense_bits {
    nbits_call rows;
    const struct dense *dense;
    float *output;
    const float *bias;
    sgemm_post posts[CPU_MAX_POSTS + 1];
} dense_bits;

static inlay_status prepare_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    nbits_prepare_rows(&((const dense_bits *)user)->rows, begin, end);
    return INLAY_OK;
}

static void finish(const dense_bits *call, int64_t row, int64_t rows, int64_t column, int64_t columns)
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

/* finish for whole rows of tiles. */
static void finish_rows(const dense_bits *call, int64_t first, int64_t last, int64_t column, int64_t columns)
{
    for (int64_t row = first; row < last; row += NBITS_FEW_ROWS)
        finish(call, row, last - row < NBITS_FEW_ROWS ? last - row : NBITS_FEW_ROWS, column, columns);
}

static int64_t groups_of(const nbits_shape *shape)
{
    return (shape->panels + NBITS_GROUP - 1) / NBITS_GROUP;
}

/* Units: groups of panels for a block of rows, then for the next block. */
static inlay_status packed_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_bits *call = user;
    const sgemm_job *job = &call->dense->job;
    const nbits_shape *shape = &call->dense->bits.shape;
    const int64_t groups = groups_of(shape), most = call->dense->bits.kernel->rows;

    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t above = unit / groups * ROW_BLOCK, m = job->m < above + ROW_BLOCK ? job->m : above + ROW_BLOCK;
        const int64_t first = unit % groups * NBITS_GROUP,
                      last = first + NBITS_GROUP < shape->panels ? first + NBITS_GROUP : shape->panels;
        const int64_t at = first * NBITS_COLUMNS, columns = shape->n - at < SGEMM_WIDTH ? shape->n - at : SGEMM_WIDTH;

        for (int64_t row = above, rows; row < m; row += rows) {
            rows = m - row < most ? m - row : most;
            for (int64_t panel = first; panel < last; panel++)
                nbits_by_tile(&call->rows, panel, row, rows, call->output + row * job->c_row + panel * NBITS_COLUMNS,
                              job->c_row);
            finish(call, row, rows, at, columns);
        }
    }
    return INLAY_OK;
}

/* Units: sets of neighbouring panels for a block of rows, then for the next block. */
static inlay_status block_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_bits *call = user;
    const sgemm_job *job = &call->dense->job;
    const nbits_plan *plan = &call->dense->bits;
    const nbits_shape *shape = &plan->shape;
    const int64_t groups = (shape->panels + NBITS_BESIDE - 1) / NBITS_BESIDE;
    char *buffer = call->rows.scratch + plan->panels + worker % call->dense->workers * plan->panel_bytes;

    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t above = unit / groups * BLOCK_ROWS, panel = unit % groups * NBITS_BESIDE;
        const int64_t m = job->m < above + BLOCK_ROWS ? job->m : above + BLOCK_ROWS, at = panel * NBITS_COLUMNS;
        const int64_t panels = shape->panels - panel < NBITS_BESIDE ? shape->panels - panel : NBITS_BESIDE;

        nbits_by_blocks(&call->rows, panel, panels, above, m, buffer, call->output + above * job->c_row + at,
                        job->c_row);
        finish_rows(call, above, m, at,
                    shape->n - at < panels * NBITS_COLUMNS ? shape->n - at : panels * NBITS_COLUMNS);
    }
    return INLAY_OK;
}

/* Units: panels for a block of rows, then for the next block. */
static inlay_status tile_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_bits *call = user;
    const sgemm_job *job = &call->dense->job;
    const nbits_plan *plan = &call->dense->bits;
    const int64_t panels = plan->shape.panels;

    (void)worker;
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t above = unit / panels * BLOCK_ROWS, panel = unit % panels;
        const int64_t m = job->m < above + BLOCK_ROWS ? job->m : above + BLOCK_ROWS;
        float *output = call->output + above * job->c_row + panel * NBITS_COLUMNS;
        const nbits_tile tile = nbits_tile_of(&call->rows, panel, 1, above, m - above, output, job->c_row);

        plan->tiles->panel(&tile, plan->mode);
        for (int64_t row = above; row < m; row++)
            if (!nbits_is_quantized(&call->rows, row))
                nbits_by_tile(&call->rows, panel, row, 1, output + (row - above) * job->c_row, job->c_row);
        finish_rows(call, above, m, panel * NBITS_COLUMNS, tile.columns);
    }
    return INLAY_OK;
}

static inlay_status unfolded_units(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const dense_bits *call = user;
    const nbits_plan *plan = &call->dense->bits;
    const nbits_shape *shape = &plan->shape;
    float *panel =
        (float *)(void *)(call->rows.scratch + plan->panels + worker % call->dense->workers * plan->panel_bytes);

    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t column = unit * SGEMM_WIDTH;
        sgemm_post posts[CPU_MAX_POSTS + 1];
        sgemm_job job = call->dense->job;

        job.n = shape->n - column < SGEMM_WIDTH ? shape->n - column : SGEMM_WIDTH;
        nbits_unfold(&call->rows, unit * NBITS_GROUP, panel);
        job.a = call->rows.input;
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
        (double)dense->job.m * count / (dense->bits.mode != NBITS_EXACT ? NBITS_INTEGERS_PER_NS : NBITS_FLOATS_PER_NS);

    return bytes / NBITS_BYTES_PER_NS > work ? bytes / NBITS_BYTES_PER_NS : work;
}

/* args: input, weights, scales, zero points if there are any, scratch memory, then as by dense_emit. */
static inlay_status run_nbits(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                              uint32_t threads)
{
    const struct dense *dense = (const struct dense *)(const void *)native;
    const nbits_plan *plan = &dense->bits;
    dense_bits call = { .rows = { .plan = plan,
                                  .input = args[0],
                                  .a_row = dense->job.a_row,
                                  .weights = args[1],
                                  .scales = args[2],
                                  .zeros = plan->has_zeros ? args[3] : NULL,
                                  .scratch = args[plan->scratch_arg],
                                  .blocks = plan->blocks && plan->kernel->block_rows,
                                  .single = dense->job.m == 1 || plan->tiles != NULL },
                        .dense = dense,
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
        return nbits_share(state, run, groups_of(&plan->shape), ns, threads, unfolded_units, &call);
    if (plan->tiles != NULL) { /* factors, sums and starts of the rows after the last */
        const size_t count = (size_t)((-dense->job.m & (NBITS_TILE_ROWS - 1)) * nbits_parts(&plan->shape));
        const uint64_t at = (uint64_t)(dense->job.m * nbits_parts(&plan->shape));

        memset(call.rows.scratch + plan->factors + at * sizeof(float), 0, count * sizeof(float));
        memset(call.rows.scratch + plan->sums + at * sizeof(float), 0, count * sizeof(float));
        memset(call.rows.scratch + plan->starts + at * sizeof(int32_t), 0, count * sizeof(int32_t));
    }
    if (plan->spreads || plan->mode != NBITS_EXACT)
        status = nbits_share(state, run, dense->job.m, 2.0 * (double)(dense->job.m * dense->job.k), threads,
                             prepare_rows, &call);
    if (status != INLAY_OK)
        return status;
    if (plan->tiles != NULL)
        return nbits_share(state, run, plan->shape.panels * ((dense->job.m + BLOCK_ROWS - 1) / BLOCK_ROWS), ns, threads,
                           tile_units, &call);
    if (plan->blocks)
        return nbits_share(state, run,
                           (plan->shape.panels + NBITS_BESIDE - 1) / NBITS_BESIDE *
                               ((dense->job.m + BLOCK_ROWS - 1) / BLOCK_ROWS),
                           ns, threads, block_units, &call);
    return nbits_share(state, run, groups_of(&plan->shape) * ((dense->job.m + ROW_BLOCK - 1) / ROW_BLOCK), ns, threads,
                       packed_units, &call);
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
    uint64_t bytes = 64;
    inlay_status status;
    int64_t count;
    tensor_layout layout;

    if (plan->unfolds) {
        plan->panel_bytes = (uint64_t)dense->job.k * SGEMM_WIDTH * sizeof(float);
        plan->panels = packs_reserve(&bytes, plan->panel_bytes * dense->workers);
    } else {
        nbits_reserve(plan, (uint64_t)dense->job.m, dense->workers, &bytes);
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
    const bool product = op->row->family->kind == CPU_FAMILY_PRODUCT;
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
    plan->mode = nbits_mode_of(build, op->row->family->kind == CPU_FAMILY_NBITS_PRODUCT ? op->size : 0);
    plan->zero = nbits.all;
    plan->has_zeros = nbits.zero != INLAY_NONE;
    plan->alone = build->state->reproducible;
    plan->spreads = nbits_depth(&plan->shape) != nbits.k;
    dense.workers = build->instance->threads > 0 ? build->instance->threads : 1;
    dense.job = (sgemm_job){ .kernel = sgemm_kernel_best(),
                             .m = cpu_count(build, op->in[0]) / nbits.k,
                             .n = nbits.n,
                             .k = nbits.k,
                             .chain = sgemm_chain(nbits.k, build->state->strict),
                             .c_row = nbits.n };
    if (plan->mode == NBITS_FINE && dense.job.m >= NBITS_FINE_ROWS && plan->kernel->many == 0 &&
        !build->state->reproducible)
        plan->mode = NBITS_EXACT;
    plan->tiles = plan->mode != NBITS_EXACT && !build->state->reproducible ? nbits_tiles_of_cpu() : NULL;
    if (plan->tiles != NULL && dense.job.m < plan->tiles->many)
        plan->tiles = NULL;
    plan->blocks =
        plan->tiles == NULL && plan->mode != NBITS_EXACT && plan->kernel->many > 0 && dense.job.m >= plan->kernel->many;
    plan->unfolds = plan->mode == NBITS_EXACT && dense.job.m >= NBITS_MANY_ROWS && !build->state->reproducible;
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

const cpu_family cpu_nbits_product = { .kind = CPU_FAMILY_NBITS_PRODUCT,
                                       .name = "GEMM with n-bit weights",
                                       .parse = nbits_parse,
                                       .lower = nbits_lower,
                                       .takes_posts = true,
                                       .takes_bias = true };
