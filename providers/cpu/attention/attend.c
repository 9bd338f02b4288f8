/* Attention on built-in kernels. It runs one block of queries of one head at a time, so that the scores stay in the
 * cache. Queries, keys and values are read in place with any strides. The result is written in the layout of a
 * Transpose that follows. */
#include "cpu/attention/attend.h"
#include "cpu/attention/score_loops.h"
#include "inlay/check.h"
#include "inlay/host.h"
#include "cpu/region/build.h"
#include "cpu/matrix/sgemm.h"
#include "cpu/weights/read.h"
#include <float.h>
#include <math.h>

#define FLOPS_PER_NS 120.0
#define WAKE_NS 10000.0
/* Scores up to this magnitude do not change a mask value of -1e20. */
#define MASKED_SCORE_LIMIT 1e17f
enum {
    BLOCK_ROWS = 128,        /* maximum number of queries in a block */
    BLOCK_SCORES = 64 * 1024 /* scores of a block: a quarter of a second-level cache */
};

static int64_t round_up(int64_t n)
{
    return (n + SGEMM_LANES - 1) / SGEMM_LANES * SGEMM_LANES;
}

static int64_t offset_of(const struct strides *strides, int64_t batch, int64_t head, int64_t row)
{
    return batch * strides->batch + head * strides->head + row * strides->row;
}

static const float *floats_at(const void *data, const struct strides *strides, int64_t batch, int64_t head)
{
    return (const float *)data + offset_of(strides, batch, head, 0);
}

static cache_rows codes_at(const struct coded *coded, const void *data, const struct strides *strides, int64_t batch,
                           int64_t head)
{
    cache_rows rows = coded->rows;

    rows.data = (const uint8_t *)data + offset_of(strides, batch, head, 0);
    return rows;
}

/* Multiplies the elements by the scales of their codes. */
static void scale_elements(const struct coded *coded, const float *scales, int64_t head, float *row)
{
    for (int64_t i = 0; coded->scales.there && i < coded->rows.format.size; i++)
        row[i] *= scales[head * coded->scales.head + i * coded->scales.step];
}

/* Copies rows of queries as the dot products with codes of keys need them: times their scale and the scales of the
 * codes, or rotated like the keys; and in the order of codes. kv: the head of the keys. */
static void encode_queries(const struct call *call, const float *q, int64_t rows, int64_t kv, float *restrict output)
{
    const struct attend *attend = call->attend;
    const struct coded *coded = &attend->keys_coded;
    const int64_t half = coded->words / 2;
    float *row = output + rows * coded->words;

    for (int64_t r = 0; r < rows; r++, output += coded->words) {
        for (int64_t i = 0; i < attend->size; i++)
            row[i] = q[r * attend->q.row + i] * attend->query_scale;
        if (coded->rows.format.own)
            cache_rotate(row, attend->size);
        scale_elements(coded, call->key_scales, kv, row);
        if (coded->rows.format.bits == 8) {
            memcpy(output, row, (size_t)attend->size * sizeof *row);
            continue;
        }
        for (int64_t i = 0; i < half; i++) {
            output[i] = row[2 * i];
            output[half + i] = 2 * i + 1 < attend->size ? row[2 * i + 1] : 0;
        }
    }
}

/* The products of rows of probabilities and codes of values, times the factors of the rows. room: a row in the order of
 * codes for each row, and one of elements. */
static void multiply_codes(const struct call *call, const cache_rows *codes, const float *scores, int64_t rows,
                           int64_t visible, int64_t kv, const float *factors, float *restrict room, float *output)
{
    const struct attend *attend = call->attend;
    const struct coded *coded = &attend->values_coded;
    const int64_t half = coded->words / 2;
    float *row = room + rows * coded->words;

    coded->loops->sums(codes, visible, scores, attend->score_row, rows, room, coded->words);
    for (int64_t r = 0; r < rows; r++, room += coded->words, output += attend->y.row) {
        for (int64_t i = 0; i < attend->value_size; i++)
            row[i] = coded->rows.format.bits == 8 ? room[i] : room[i / 2 + i % 2 * half];
        if (coded->rows.format.own)
            cache_rotate(row, attend->value_size);
        scale_elements(coded, call->value_scales, kv, row);
        for (int64_t i = 0; i < attend->value_size; i++)
            output[i] = row[i] * factors[r];
    }
}

/* Copies rows of queries, multiplied by their scale. */
static void scale_queries(const struct attend *attend, const float *q, int64_t rows, float *restrict output)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < attend->size; i++)
            output[r * attend->size + i] = q[r * attend->q.row + i] * attend->query_scale;
}

/* Computes the scores of `rows` queries, `q_row` elements apart, against `visible` keys, as products of floats. */
static void multiply_keys(const struct attend *attend, const float *q, int64_t q_row, int64_t rows, const float *k,
                          int64_t visible, float *scores, float *panel)
{
    sgemm_job job = { .kernel = attend->kernel,
                      .m = rows,
                      .k = attend->size,
                      .chain = sgemm_chain(attend->size, attend->strict),
                      .a = q,
                      .a_row = q_row,
                      .b = panel,
                      .width = SGEMM_WIDTH,
                      .b_step = SGEMM_WIDTH,
                      .c_row = attend->score_row };

    INLAY_CHECK(rows <= attend->rows && visible <= attend->keys && attend->keys <= attend->score_row);
    if (attend->uses_dots || attend->size == 0) {
        attend->kernel->dots(q, q_row, rows, k, attend->k.row, visible, attend->size, scores, attend->score_row);
        return;
    }
    for (int64_t j = 0; j < visible; j += SGEMM_WIDTH) {
        job.n = visible - j < SGEMM_WIDTH ? visible - j : SGEMM_WIDTH;
        job.c = scores + j;
        attend->kernel->panel(k + j * attend->k.row, attend->k.row, job.n, attend->size, panel);
        sgemm_run(&job, 0, sgemm_units(&job));
    }
}

/* The same; strips of queries with terms by those. */
static void make_scores(const struct attend *attend, const struct attend_terms *terms, const float *q, int64_t q_row,
                        int64_t rows, const float *k, int64_t visible, float *scores, float *panel)
{
    uint32_t left;

    if (!terms->keys_fit) {
        multiply_keys(attend, q, q_row, rows, k, visible, scores, panel);
        return;
    }
    left = attend_terms_scores(attend, terms, q, q_row, rows, visible, scores);
    for (int64_t r = 0; left != 0; r += TERMS_ROWS, left >>= 1)
        if ((left & 1) != 0)
            multiply_keys(attend, q + r * q_row, q_row, rows - r < TERMS_ROWS ? rows - r : TERMS_ROWS, k, visible,
                          scores + r * attend->score_row, panel);
}

/* True if all elements of the rows are finite and at most `limit` in magnitude. */
static bool is_within(const float *input, int64_t row, int64_t rows, int64_t size, float limit)
{
    for (int64_t r = 0; r < rows; r++) {
        bool exceeds = false;

#pragma omp simd reduction(| : exceeds)
        for (int64_t i = 0; i < size; i++)
            exceeds |= !(fabsf(input[r * row + i]) <= limit);
        if (exceeds)
            return false;
    }
    return true;
}

/* is_within() of keys or values of one batch and head. A rotation keeps the bound up to the root of the size. */
static bool rows_are_within(const struct call *call, const struct coded *coded, const void *data,
                            const struct strides *strides, int64_t batch, int64_t head, int64_t size, float limit)
{
    const cache_rows rows = codes_at(coded, data, strides, batch, head);

    if (coded->loops == NULL)
        return is_within(floats_at(data, strides, batch, head), strides->row, call->attend->keys, size, limit);
    for (int64_t t = 0; coded->rows.format.own && t < call->attend->keys; t++)
        if (!(fabsf(cache_own_scale(&rows.format, rows.data + t * rows.stride)) * 128 * sqrtf((float)size) <= limit))
            return false;
    return coded->rows.format.own;
}

/* True if the block may skip the keys after its last query. If only the mask hides these keys, their scores must be
 * finite and too small to change the mask, and their values must be finite, so that 0 times a value is 0. */
static bool may_skip_later_keys(const struct call *call, int64_t batch, int64_t head, int64_t r0, int64_t r1)
{
    const struct attend *attend = call->attend;
    int64_t kv = head / attend->shared;

    return attend->causal &&
           (!attend->mask_is_causal || (is_within(call->q + offset_of(&attend->q, batch, head, r0), attend->q.row,
                                                  r1 - r0, attend->size, attend->operand_limit) &&
                                        rows_are_within(call, &attend->keys_coded, call->k, &attend->k, batch, kv,
                                                        attend->size, attend->operand_limit) &&
                                        rows_are_within(call, &attend->values_coded, call->v, &attend->v, batch, kv,
                                                        attend->value_size, FLT_MAX)));
}

/* Floats of scratch memory for the queries, and for the results, of a block; see encode_queries(), multiply_codes(). */
static int64_t scaled_floats(const struct attend *attend)
{
    if (attend->keys_coded.loops != NULL)
        return attend->rows * attend->keys_coded.words + attend->size;
    return attend->query_scale != 1 ? attend->rows * attend->size : 0;
}
static int64_t result_floats(const struct attend *attend)
{
    return attend->values_coded.loops != NULL ? attend->rows * attend->values_coded.words + attend->value_size : 0;
}

/* A block of queries of one head. */
struct block {
    int64_t batch, head, kv, first, rows; /* kv: the head of keys and values */
    int64_t visible;                      /* keys */
    bool causal;                          /* skips later keys */
    struct attend_terms *terms;
    float *scores, *panel, *factors, *scaled, *results, *hidden; /* scratch memory */
};

/* Computes the weights of the values of each query, except for its factor. clear: hidden scores count as 0 before the
 * mask is added. */
static void make_weights(const struct call *call, const struct block *block, bool clear)
{
    const struct attend *attend = call->attend;
    const bool masked = attend->mask.there && !(block->causal && attend->mask_is_causal);
    const float *q = call->q + offset_of(&attend->q, block->batch, block->head, block->first);
    const int64_t rows = block->rows, visible = block->visible;
    float *scores = block->scores;

    if (attend->keys_coded.loops != NULL) {
        const cache_rows codes = codes_at(&attend->keys_coded, call->k, &attend->k, block->batch, block->kv);

        encode_queries(call, q, rows, block->kv, block->scaled);
        attend->keys_coded.loops->dots(&codes, visible, block->scaled, attend->keys_coded.words, rows, scores,
                                       attend->score_row);
    } else {
        int64_t q_row = attend->q.row;

        if (attend->query_scale != 1) {
            scale_queries(attend, q, rows, block->scaled);
            q = block->scaled;
            q_row = attend->size;
        }
        make_scores(attend, block->terms, q, q_row, rows, floats_at(call->k, &attend->k, block->batch, block->kv),
                    visible, scores, block->panel);
    }
    if (attend->is_capped)
        attend->kernel->post(&(sgemm_post){ .fn = SGEMM_TANH }, scores, attend->score_row, rows, visible);
    for (int64_t r = 0; r < rows && attend->hidden.there; r++)
        KERNEL_BEST(score_loops)
            ->hide(scores + r * attend->score_row,
                   call->hidden + cpu_mask_at(&attend->hidden, block->batch, block->head, block->first + r),
                   attend->hidden.step, visible);
    for (int64_t r = 0; r < rows && clear; r++)
        attend_clear_hidden(call, block->batch, block->head, block->first + r, visible, scores + r * attend->score_row);
    attend->kernel->softmax(&(sgemm_scores){
        .rows = rows,
        .count = visible,
        .seen = block->causal ? block->first + 1 : visible,
        .input = scores,
        .x_row = attend->score_row,
        .mask_row = attend->mask.query,
        .scale = attend->scale,
        .blank = attend->blank,
        .sinks = attend->sink.there ? call->sinks + cpu_mask_at(&attend->sink, block->batch, block->head, block->first)
                                    : NULL,
        .sink_row = attend->sink.query,
        .mask = masked ? call->mask + cpu_mask_at(&attend->mask, block->batch, block->head, block->first) : NULL,
        .factors = block->factors });
}

/* Multiplies the weights by the values. job: the product of floats. */
static void make_results(const struct call *call, const struct block *block, const sgemm_job *job)
{
    const struct attend *attend = call->attend;

    if (attend->values_coded.loops != NULL) {
        const cache_rows codes = codes_at(&attend->values_coded, call->v, &attend->v, block->batch, block->kv);

        multiply_codes(call, &codes, block->scores, block->rows, block->visible, block->kv, block->factors,
                       block->results, job->c);
    } else if (block->terms->values_fit) {
        attend_terms_values(attend, block->terms, job);
    } else {
        sgemm_run(job, 0, sgemm_units(job));
    }
}

/* Computes the result of query r of the block again, without hidden values. */
static void make_visible_results(const struct call *call, const struct block *block, const sgemm_job *job, int64_t r)
{
    const struct attend *attend = call->attend;
    const sgemm_post post = { .fn = SGEMM_MUL, .other = block->factors + r, .row = 1, .col = 0 };
    sgemm_job one = *job;

    one.a += r * job->a_row;
    one.c += r * job->c_row;
    one.posts = &post;
    if (attend->values_coded.loops == NULL) {
        attend_visible_values(call, block->batch, block->head, block->first + r, &one, block->hidden);
    } else if (attend->values_coded.rows.format.own) { /* otherwise all values are finite, unless all are NaN */
        const cache_rows codes = codes_at(&attend->values_coded, call->v, &attend->v, block->batch, block->kv),
                         copy = attend_visible_codes(call, block->batch, block->head, block->first + r, block->visible,
                                                     &codes, block->hidden);

        multiply_codes(call, &copy, one.a, 1, block->visible, block->kv, block->factors + r, block->results, one.c);
    }
}

static void run_block(const struct call *call, int64_t batch, int64_t head, int64_t r0, int64_t r1, float *scratch,
                      struct attend_terms *terms)
{
    const struct attend *attend = call->attend;
    const bool causal = may_skip_later_keys(call, batch, head, r0, r1);
    const int64_t rows = r1 - r0, visible = causal && r1 < attend->reach ? r1 : attend->reach,
                  kv = head / attend->shared;
    float *scores = scratch + attend_terms_floats(attend), *panel = scores + attend->rows * attend->score_row,
          *factors = panel + attend->size * SGEMM_WIDTH, *scaled = factors + attend->rows,
          *results = scaled + scaled_floats(attend);
    const struct block block = { .batch = batch,
                                 .head = head,
                                 .kv = kv,
                                 .first = r0,
                                 .rows = rows,
                                 .visible = visible,
                                 .causal = causal,
                                 .terms = terms,
                                 .scores = scores,
                                 .panel = panel,
                                 .factors = factors,
                                 .scaled = scaled,
                                 .results = results,
                                 .hidden = results + result_floats(attend) };
    float *output = call->output + offset_of(&attend->y, batch, head, r0);
    const sgemm_post post = { .fn = SGEMM_MUL, .other = factors, .row = 1, .col = 0 };
    sgemm_job job = { .kernel = attend->kernel,
                      .m = rows,
                      .n = attend->value_size,
                      .k = visible,
                      .chain = sgemm_chain(visible, attend->strict),
                      .a = scores,
                      .a_row = attend->score_row,
                      .b = attend->values_coded.loops == NULL ? floats_at(call->v, &attend->v, batch, kv) : NULL,
                      .width = SGEMM_WIDTH,
                      .b_panel = SGEMM_WIDTH,
                      .b_step = attend->v.row,
                      .c = output,
                      .c_row = attend->y.row,
                      .posts = &post,
                      .post_count = 1 };

    if (visible == 0) {
        for (int64_t r = 0; r < rows; r++)
            memset(output + r * attend->y.row, 0, (size_t)attend->value_size * sizeof *output);
        return;
    }
    if (attend_has_terms(attend))
        attend_terms_pack(attend, batch * (attend->heads / attend->shared) + kv,
                          floats_at(call->k, &attend->k, batch, kv), floats_at(call->v, &attend->v, batch, kv), panel,
                          terms);
    make_weights(call, &block, false);
    if (attend_may_hide(attend) && attend_has_nan(block.factors, 1, rows, 1))
        make_weights(call, &block, true);
    make_results(call, &block, &job);
    for (int64_t r = 0; r < rows && attend_may_hide(attend); r++)
        if (attend_has_nan(output + r * attend->y.row, attend->y.row, 1, attend->value_size))
            make_visible_results(call, &block, &job, r);
}

/* Blocks begin at strips of terms. */
static int64_t block_begin(const struct attend *attend, int64_t block)
{
    if (!attend_has_terms(attend))
        return attend->queries * block / attend->blocks;
    return block < attend->blocks ? block * attend->rows : attend->queries;
}

inlay_status attend_range(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct call *call = user;
    const struct attend *attend = call->attend;
    float *scratch = call->scratch + worker % attend->workers * attend->worker_floats;
    struct attend_terms terms;

    attend_terms_at(attend, scratch, &terms);
    for (int64_t i = begin; i < end; i++) {
        int64_t block = i % attend->blocks, head = i / attend->blocks % attend->heads,
                batch = i / attend->blocks / attend->heads;

        run_block(call, batch, head, block_begin(attend, block), block_begin(attend, block + 1), scratch, &terms);
    }
    return INLAY_OK;
}

/* args: queries, keys, values, scratch, y, and the float mask, the hiding mask, the scales of codes of keys and values,
 * and the sinks, each only if present. */
static inlay_status run_attend(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                               uint32_t threads)
{
    const struct attend *attend = (const struct attend *)(const void *)native;
    void *const *next = args + 5;
    struct call call = {
        .attend = attend, .q = args[0], .k = args[1], .v = args[2], .scratch = args[3], .output = args[4]
    };
    int64_t count = attend->batch * attend->heads * attend->blocks, grain = 1;
    double ns = 2.0 * (double)(attend->batch * attend->heads) * (double)attend->queries * (double)attend->keys *
                (double)(attend->size + attend->value_size) / FLOPS_PER_NS;

    call.mask = attend->mask.there ? *next++ : NULL;
    call.hidden = attend->hidden.there ? *next++ : NULL;
    call.key_scales = attend->keys_coded.scales.there ? *next++ : NULL;
    call.value_scales = attend->values_coded.scales.there ? *next++ : NULL;
    call.sinks = attend->sink.there ? *next++ : NULL;
    if (threads <= 1 || ns < WAKE_NS)
        return attend_range(&call, 0, count, 0);
    while (grain < count && ns * (double)grain / (double)count < WAKE_NS / 4)
        grain *= 2;
    if (attend_has_terms(attend)) { /* whole heads of keys, if there are enough */
        const int64_t head = attend->blocks * attend->shared, part = count > threads ? count / threads : 1,
                      whole = head < part ? head : part;

        grain = grain < whole ? whole : grain;
    }
    return state->host->parallel_for(state->host->ctx, run, count, grain, attend_range, &call);
}

/* Reads an operand in place if the elements of a row are contiguous, otherwise as a row-major copy. */
static inlay_status read_rows(cpu_build *build, uint32_t value, cpu_place *out, struct strides *strides)
{
    const int64_t *by;
    inlay_status status = cpu_read_strided(build, value, out);

    if (status == INLAY_OK && out->layout.strides[3] != 1)
        status = cpu_read_plain(build, value, out);
    by = out->layout.strides;
    *strides = (struct strides){ by[0], by[1], by[2] };
    return status;
}

/* Reads input `input`, keys or values of `size` elements: floats (bits = 0), or codes, whose scales are input `scales`.
 * */
static inlay_status read_operand(cpu_build *build, uint32_t input, int64_t size, int32_t bits, uint32_t scales,
                                 cpu_place *out, struct strides *strides, struct coded *coded, cpu_place *out_scales)
{
    const cpu_op *op = build->op;
    inlay_status status = read_rows(build, op->in[input], out, strides);

    if (status != INLAY_OK || bits == 0)
        return status;
    INLAY_TRY(cpu_read_scales(build, scales, build->dims[op->in[input]][1], size, &coded->scales, out_scales));
    coded->loops = cpu_cache_loops();
    coded->rows =
        (cache_rows){ .format = { .size = size, .bits = bits, .own = !coded->scales.there }, .stride = strides->row };
    coded->words = cache_words(&coded->rows.format);
    if (build->dims[op->in[input]][3] != cache_row_bytes(&coded->rows.format))
        status =
            inlay_fail(build->diag, INLAY_SHAPE_MISMATCH,
                       "node '%s': %lld elements in %d bits are %lld bytes, not %lld", op->name, (long long)size, bits,
                       (long long)cache_row_bytes(&coded->rows.format), (long long)build->dims[op->in[input]][3]);
done:
    return status;
}

/* True if the only reader of the value is a Transpose that exchanges heads and rows. */
static bool is_transposed_back(const cpu_build *build, uint32_t value)
{
    const uint32_t reader = cpu_only_reader(build->compiled, value);
    const cpu_op *op = reader == INLAY_NONE ? NULL : &build->compiled->ops[reader];

    return op != NULL && op->row->family->kind == CPU_FAMILY_TRANSPOSE && op->perm[0] == 0 && op->perm[1] == 2 &&
           op->perm[2] == 1 && op->perm[3] == 3;
}

enum { CAUSAL_SHARES = 4 };

void attend_plan(struct attend *attend, uint32_t threads, bool reproducible)
{
    /* A causal block sums over the keys up to its last query, so its size decides how sums are split. */
    const int64_t shares = !attend->causal ? threads : reproducible ? 1 : CAUSAL_SHARES;
    int64_t rows, heads = attend->batch * attend->heads;

    INLAY_CHECK(attend->queries > 0);
    attend->workers = threads > 0 ? threads : 1;
    attend->uses_dots = attend->queries <= SGEMM_FEW && !reproducible;
    attend->score_row = round_up(attend->keys) + SGEMM_LANES; /* avoids distances that are powers of two */
    rows = BLOCK_SCORES / attend->score_row;
    rows = rows < 12 ? 12 : rows > BLOCK_ROWS ? BLOCK_ROWS : rows;
    if (shares > 1 && heads < 2 * shares && attend->queries > 24) { /* two blocks for each thread */
        int64_t share = attend->queries * heads / (2 * shares) + 1;

        rows = share < 12 ? 12 : share < rows ? share : rows;
    } else if (attend->grouped && heads < shares) { /* a block for each thread */
        int64_t share = (attend->queries * heads + shares - 1) / shares;

        rows = share < SGEMM_FEW ? SGEMM_FEW : share < rows ? share : rows;
    }
    rows = rows < attend->queries ? rows : attend->queries;
    attend->blocks = (attend->queries + rows - 1) / rows;
    attend->rows = (attend->queries + attend->blocks - 1) / attend->blocks;
    if (attend_has_terms(attend)) {
        attend->rows = (attend->rows + TERMS_ROWS - 1) / TERMS_ROWS * TERMS_ROWS;
        attend->blocks = (attend->queries + attend->rows - 1) / attend->rows;
    }
    attend->worker_floats =
        round_up(attend_terms_floats(attend) + attend->rows * attend->score_row + attend->size * SGEMM_WIDTH +
                 attend->rows + scaled_floats(attend) + result_floats(attend) + attend_hidden_floats(attend));
}

/* With one query per head and several query heads per head of keys and values, the query heads become queries of the
 * shared head, so that its keys and values are read once. This does not depend on the number of threads, because the
 * number of queries selects the kernel. */
static bool shares_keys(const cpu_build *build, const struct attend *attend)
{
    return attend->queries == 1 && attend->shared > 1 && !attend->causal && !build->state->reproducible;
}

static void heads_to_rows(int64_t *head, int64_t *row, int64_t shared)
{
    *row = *head;
    *head *= shared;
}

inlay_status cpu_lower_attend(cpu_build *build, const cpu_group *group, const sgemm_kernel *kernel)
{
    const cpu_op *op = build->op;
    const int64_t *q = build->dims[op->in[0]], *k = build->dims[op->in[1]];
    const int64_t value_size = build->dims[op->out[0]][3];
    const int64_t transposed[] = { q[2] * q[1] * value_size, value_size, q[1] * value_size, 1 };
    struct attend attend = { .native.run = run_attend,
                             .kernel = kernel,
                             .strict = build->state->strict,
                             .batch = q[0],
                             .heads = q[1],
                             .shared = q[1] / k[1],
                             .queries = q[2],
                             .keys = k[2],
                             .size = q[3],
                             .value_size = value_size,
                             .blank = op->attention.blank,
                             .query_scale = op->attention.own ? 1 : cpu_attention_scale(op, q[3]),
                             .scale = op->attention.own ? cpu_attention_scale(op, q[3]) : 1,
                             .causal = op->attention.causal,
                             .mask_is_causal = op->attention.own,
                             .reach = cpu_mask_columns(build) };
    cpu_place queries, keys, values, mask, hidden, key_scales, value_scales, sink, scratch, output;
    const cpu_place *places[10] = { &queries, &keys, &values, &scratch, &output };
    uint32_t count = 5; /* of places; masks, scales and sinks are appended */
    inlay_status status;
    int64_t floats, shared;
    tensor_layout layout;

    INLAY_CHECK(kernel != NULL && attend.shared * k[1] == attend.heads && attend.reach <= attend.keys);
    INLAY_TRY(read_rows(build, op->in[0], &queries, &attend.q));
    INLAY_TRY(read_operand(build, 1, attend.size, op->code_bits, 5, &keys, &attend.k, &attend.keys_coded, &key_scales));
    INLAY_TRY(read_operand(build, 2, attend.value_size, op->attention.value_bits, 6, &values, &attend.v,
                           &attend.values_coded, &value_scales));
    INLAY_TRY(cpu_read_mask(build, 3, &attend.mask, &mask));
    INLAY_TRY(cpu_read_mask(build, 4, &attend.hidden, &hidden));
    if (attend.mask.there)
        places[count++] = &mask;
    if (attend.hidden.there)
        places[count++] = &hidden;
    if (attend.keys_coded.scales.there)
        places[count++] = &key_scales;
    if (attend.values_coded.scales.there)
        places[count++] = &value_scales;
    INLAY_TRY(cpu_read_mask(build, cpu_sink_input(op), &attend.sink, &sink));
    if (attend.sink.there)
        places[count++] = &sink;
    if (op->attention.softcap > 0) {
        attend.query_scale *= attend.scale / op->attention.softcap;
        attend.scale = op->attention.softcap;
        attend.is_capped = true;
    }
    attend.operand_limit = sqrtf(MASKED_SCORE_LIMIT / (attend.scale * (float)(attend.size > 0 ? attend.size : 1)));
    shared = shares_keys(build, &attend) ? attend.shared : 1;
    if (shared > 1) {
        heads_to_rows(&attend.q.head, &attend.q.row, shared);
        heads_to_rows(&attend.mask.head, &attend.mask.query, shared);
        heads_to_rows(&attend.hidden.head, &attend.hidden.query, shared);
        heads_to_rows(&attend.sink.head, &attend.sink.query, shared);
        attend.heads /= shared;
        attend.queries = shared;
        attend.shared = 1;
        attend.grouped = true;
    }
    attend_choose(&attend, build->state->reproducible ? NULL : terms_of_cpu(),
                  cpu_tile_pace(cpu_measured_speed(build->state->host)));
    attend_plan(&attend, build->instance->threads, build->state->reproducible);
    floats = attend.worker_floats * attend.workers;
    INLAY_TRY(cpu_new_floats(build, floats, &scratch));
    if (is_transposed_back(build, group->out)) {
        layout_strides(&layout, 4, build->dims[group->out], transposed);
        INLAY_TRY(cpu_new_place(build, &layout, &output));
    } else {
        layout_plain(&layout, 4, build->dims[group->out]);
        INLAY_TRY(cpu_result_place(build, group->out, &layout, &output));
    }
    attend.y = (struct strides){ layout.strides[0], layout.strides[1], layout.strides[2] };
    if (shared > 1)
        heads_to_rows(&attend.y.head, &attend.y.row, shared);
    INLAY_TRY(cpu_emit_step(build, &attend.native, sizeof attend, places, count));
    status = cpu_set_place(build, group->out, &output);
done:
    return status;
}
