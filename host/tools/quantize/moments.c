#include "quantize/moments.h"
#include "config/options.h"
#include "inlay/check.h"
#include "quantize/loops.h"
#include "threads/threads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* STRIP columns of a matrix and ROWS rows of activations are processed at once, so that they stay in the first-level
 * caches. */
enum { ROWS = 128, STRIP = 32, ENOUGH_ROWS = 16384 };
static const uint64_t MOST_BYTES = UINT64_C(1) << 29; /* of the moments that one round gathers */

/* One value that matrix multiplications read. */
struct operand {
    const char *name;
    int64_t depth;
    float *sums; /* [depth, depth], upper triangle; NULL: not in this round */
    uint64_t rows;
    float *importance, *factor; /* the result, see weight_inputs */
    int32_t *order;
};

struct collector {
    const char *path;
    const inlay_options *options;
    const struct samples *set;
    struct moments *out;
    struct operand *operands; /* [count] */
    uint32_t count, block;
    inlay_diag *diag;
};

/* Rows whose outer products are added to one matrix. */
struct accumulation {
    struct operand *operand;
    const float *input;
    int64_t rows;
};

/* Adds to the columns of strips begin .. end, down to the diagonal. */
static inlay_status add_strips(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct accumulation *accumulation = user;
    const int64_t n = accumulation->operand->depth;

    INLAY_CHECK(accumulation->operand->sums != NULL);
    (void)worker;
    for (int64_t strip = begin; strip < end; strip++) {
        const int64_t from = strip * STRIP, to = from + STRIP < n ? from + STRIP : n;

        for (int64_t k = 0; k < accumulation->rows; k += ROWS)
            blockmul_add(&(struct blockmul){ .c = accumulation->operand->sums + from,
                                             .a = accumulation->input + k * n,
                                             .b = accumulation->input + k * n + from,
                                             .rows = to,
                                             .columns = to - from,
                                             .depth = accumulation->rows - k < ROWS ? accumulation->rows - k : ROWS,
                                             .c_row = n,
                                             .a_row = 1,
                                             .a_step = n,
                                             .b_row = n,
                                             .factor = 1 });
    }
    return INLAY_OK;
}

static void add_rows(struct operand *operand, const float *input, int64_t rows)
{
    struct accumulation accumulation = { operand, input, rows };

    (void)threads_parallel_for(NULL, (operand->depth + STRIP - 1) / STRIP, 1, add_strips,
                               &accumulation); /* fixed partition, so that sums do not depend on threads */
    operand->rows += (uint64_t)rows;
}

static inlay_status add_sample(struct collector *collector, const struct subject *subject, inlay_value *const *values)
{
    for (uint32_t k = 0; k < collector->count; k++) {
        struct operand *operand = &collector->operands[k];
        const uint32_t out = inlay_session_find_output(subject->session, operand->name);
        const uint32_t in = inlay_session_find_input(collector->set->of, operand->name);
        const inlay_value *value = out != INLAY_NONE  ? inlay_context_output(subject->context, out)
                                   : in != INLAY_NONE ? values[in]
                                                      : NULL;
        inlay_tensor_view view;
        int64_t rows;

        if (operand->sums == NULL || value == NULL || operand->rows >= ENOUGH_ROWS + 2 * (uint64_t)operand->depth)
            continue;
        if (!evaluate_view(value, &view) || view.dtype != INLAY_FLOAT || view.rank == 0 ||
            view.dims[view.rank - 1] != operand->depth)
            return inlay_fail(collector->diag, INLAY_INVALID_ARGUMENT,
                              "value '%s' is not a float tensor with %lld elements along the last axis", operand->name,
                              (long long)operand->depth);
        rows = inlay_value_count(value) / operand->depth;
        add_rows(operand, view.data, rows);
    }
    return INLAY_OK;
}

/* Computes rows from .. to of the inverse of r; the rows from `to` on are complete. */
static void invert_rows(const float *r, int64_t n, int64_t from, int64_t to, float *u)
{
    memset(u + from * n, 0, (size_t)((to - from) * n) * sizeof *u);
    if (to < n)
        blockmul_add(&(struct blockmul){ .c = u + from * n + to,
                                         .a = r + from * n + to,
                                         .b = u + to * n + to,
                                         .rows = to - from,
                                         .columns = n - to,
                                         .depth = n - to,
                                         .c_row = n,
                                         .a_row = n,
                                         .a_step = 1,
                                         .b_row = n,
                                         .factor = -1 });
    for (int64_t i = to - 1; i >= from; i--) {
        float *out = u + i * n;
        const float pivot = 1 / r[i * n + i];

        for (int64_t k = i + 1; k < to; k++)
            for (int64_t j = k; j < n; j++)
                out[j] -= r[i * n + k] * u[k * n + j];
        for (int64_t j = i + 1; j < n; j++)
            out[j] *= pivot;
        out[i] = pivot;
    }
}

/* Factors columns from .. to of r with h = r r'; the contributions of later columns have been subtracted. turned is
 * [STRIP, n] and receives these columns as rows. */
static bool factor_columns(float *h, int64_t n, int64_t from, int64_t to, float *turned)
{
    for (int64_t k = from; k < to; k++)
        for (int64_t i = 0; i <= k; i++)
            turned[(k - from) * n + i] = h[i * n + k];
    for (int64_t k = to - 1; k >= from; k--) {
        float *column = turned + (k - from) * n;
        const float square = column[k];

        if (!(square > 0) || !isfinite(square))
            return false;
        column[k] = sqrtf(square);
        for (int64_t i = 0; i < k; i++)
            column[i] /= column[k];
        for (int64_t j = from; j < k; j++) {
            const float f = column[j];

            for (int64_t i = 0; i <= j; i++)
                turned[(j - from) * n + i] -= f * column[i];
        }
        memset(column + k + 1, 0, (size_t)(n - k - 1) * sizeof *column);
    }
    for (int64_t i = 0; i < to; i++)
        for (int64_t k = i > from ? i : from; k < to; k++)
            h[i * n + k] = turned[(k - from) * n + i];
    return true;
}

/* Factors h = r r' with an upper triangular r, in strips of columns from the last to the first; then u is the inverse
 * of r, and u' u that of h. */
bool moments_factor(float *h, int64_t n, float *u)
{
    const int64_t strips = (n + STRIP - 1) / STRIP;
    float *turned = malloc((size_t)(n * STRIP + 1) * sizeof *turned);
    bool good = turned != NULL;

    for (int64_t s = strips - 1; good && s >= 0; s--) {
        const int64_t from = s * STRIP, to = from + STRIP < n ? from + STRIP : n;

        good = factor_columns(h, n, from, to, turned);
        for (int64_t j = 0; good && j < from; j += STRIP) /* above the diagonal, strip by strip */
            blockmul_add(&(struct blockmul){ .c = h + j,
                                             .a = turned,
                                             .b = turned + j,
                                             .rows = j + STRIP,
                                             .columns = STRIP,
                                             .depth = to - from,
                                             .c_row = n,
                                             .a_row = 1,
                                             .a_step = n,
                                             .b_row = n,
                                             .factor = -1 });
    }
    free(turned);
    for (int64_t s = strips - 1; good && s >= 0; s--)
        invert_rows(h, n, s * STRIP, s * STRIP + STRIP < n ? s * STRIP + STRIP : n, u);
    return good;
}

/* A block or an element with its importance. */
struct ranked {
    int32_t at;
    double weight;
};

static int by_importance(const void *a, const void *b)
{
    const struct ranked *left = a, *right = b;

    return left->weight != right->weight ? (left->weight < right->weight) - (left->weight > right->weight)
                                         : (left->at > right->at) - (left->at < right->at);
}

/* The importance of element i for by_importance(), which cannot order NaN. */
static double weight_of(const struct operand *operand, int64_t i)
{
    return isnan(operand->importance[i]) ? INFINITY : (double)operand->importance[i];
}

/* Orders blocks by decreasing importance, and likewise the elements of each block: elements that are rounded first have
 * more others left to compensate their error. If the depth is not a multiple of the block, the order stays natural,
 * since blocks would be split. False: out of memory. */
static bool find_order(struct collector *collector, struct operand *operand)
{
    const int64_t n = operand->depth, blocks = n / collector->block;
    struct ranked *list;

    INLAY_CHECK(collector->block > 0 && operand->importance != NULL);
    if (n % collector->block != 0)
        return true;
    operand->order = arena_array(&collector->out->arena, (size_t)n, sizeof *operand->order);
    list = calloc((size_t)n + (size_t)blocks + 1, sizeof *list);
    if (operand->order == NULL || list == NULL) {
        free(list);
        return false;
    }
    for (int64_t b = 0; b < blocks; b++) {
        list[b].at = (int32_t)b;
        for (int64_t i = b * collector->block; i < (b + 1) * collector->block; i++)
            list[b].weight += weight_of(operand, i);
    }
    qsort(list, (size_t)blocks, sizeof *list, by_importance);
    for (int64_t b = 0; b < blocks; b++) {
        struct ranked *in = list + blocks;

        for (int64_t i = 0; i < collector->block; i++) {
            in[i].at = (int32_t)(list[b].at * (int64_t)collector->block + i);
            in[i].weight = weight_of(operand, in[i].at);
        }
        qsort(in, collector->block, sizeof *in, by_importance);
        for (int64_t i = 0; i < collector->block; i++)
            operand->order[b * collector->block + i] = in[i].at;
    }
    free(list);
    return true;
}

/* Element (i, k) of the second moments in the order of rounding. */
static float moment(const struct operand *operand, int64_t i, int64_t k)
{
    const int64_t a = operand->order != NULL ? operand->order[i] : i,
                  b = operand->order != NULL ? operand->order[k] : k;

    return operand->sums[(a < b ? a : b) * operand->depth + (a < b ? b : a)] /
           (float)(operand->rows > 0 ? operand->rows : 1);
}

/* Computes mean squares and order, and allocates the factor. False: out of memory. */
static bool begin_factor(struct collector *collector, struct operand *operand)
{
    const int64_t n = operand->depth;

    operand->importance = arena_array(&collector->out->arena, (size_t)n, sizeof *operand->importance);
    operand->factor = arena_array(&collector->out->arena, (size_t)(n * n), sizeof *operand->factor);
    if (operand->importance == NULL || operand->factor == NULL)
        return false;
    for (int64_t i = 0; i < n; i++)
        operand->importance[i] = operand->sums[i * n + i] / (float)(operand->rows > 0 ? operand->rows : 1);
    return find_order(collector, operand);
}

/* Computes the factor with WEIGHTS_DAMP times the mean added to the diagonal, ten times more whenever that is not
 * enough. False: out of memory. */
static bool find_factor(struct operand *operand)
{
    const int64_t n = operand->depth;
    float *copy = malloc((size_t)(n * n) * sizeof *copy);
    double mean = 0;

    if (copy == NULL)
        return false;
    for (int64_t i = 0; i < n; i++)
        mean += (double)operand->importance[i] / (double)n;
    for (double damp = WEIGHTS_DAMP; damp < 1e4; damp *= 10) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = i; k < n; k++)
                copy[i * n + k] = moment(operand, i, k);
        for (int64_t i = 0; i < n; i++)
            copy[i * n + i] += (float)(damp * mean);
        if (moments_factor(copy, n, operand->factor)) {
            for (int64_t i = 0; i < n; i++)
                for (int64_t k = 0; k < i; k++)
                    operand->factor[i * n + k] = moment(operand, i, k);
            free(copy);
            return true;
        }
    }
    free(copy);
    operand->importance = operand->factor = NULL; /* all zeros or not finite: no statistics */
    return true;
}

static inlay_status find_factors(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    struct collector *collector = user;

    (void)worker;
    for (int64_t k = begin; k < end; k++)
        if (collector->operands[k].sums != NULL && !find_factor(&collector->operands[k]))
            return INLAY_OUT_OF_MEMORY;
    return INLAY_OK;
}

static inlay_status run_round(struct collector *collector, int (*progress)(void *, double, const char *), void *user)
{
    inlay_options *tapped = NULL;
    struct subject subject = { 0 };
    inlay_value **values = NULL;
    inlay_status status;

    INLAY_TRY(evaluate_options(collector->options, NULL, NULL, &tapped, collector->diag));
    for (uint32_t k = 0; k < collector->count; k++)
        if (collector->operands[k].sums != NULL &&
            inlay_session_find_input(collector->set->of, collector->operands[k].name) == INLAY_NONE &&
            inlay_session_find_output(collector->set->of, collector->operands[k].name) == INLAY_NONE)
            INLAY_TRY(options_set_item(tapped, "tap", collector->operands[k].name, collector->diag));
    INLAY_TRY(subject_open(collector->path, tapped, &subject, collector->diag));
    for (uint32_t i = 0; i < collector->set->count; i++) {
        if (progress != NULL && progress(user, 0.2 + 0.2 * i / collector->set->count, "calibrating") != 0) {
            status = inlay_fail(collector->diag, INLAY_CANCELLED, "stopped at sample %u of %u; nothing was written",
                                i + 1, collector->set->count);
            goto done;
        }
        INLAY_TRY(samples_load(collector->set, i, &values, collector->diag));
        INLAY_TRY(samples_run(collector->set, values, subject.session, subject.context, collector->diag));
        INLAY_TRY(add_sample(collector, &subject, values));
        samples_release(collector->set, values);
        values = NULL;
    }
    for (uint32_t k = 0; k < collector->count && status == INLAY_OK; k++)
        if (collector->operands[k].sums != NULL && !begin_factor(collector, &collector->operands[k]))
            status = no_memory(collector->diag, "for the moments of activations");
    if (status == INLAY_OK && threads_parallel_for(NULL, collector->count, 1, find_factors, collector) != INLAY_OK)
        status = no_memory(collector->diag, "for the moments of activations");
    for (uint32_t k = 0; k < collector->count; k++) {
        free(collector->operands[k].sums);
        collector->operands[k].sums = NULL;
    }
done:
    samples_release(collector->set, values);
    subject_close(&subject);
    inlay_options_destroy(tapped);
    return status;
}

/* Name of the layer's input if its weights can have 4 bits, otherwise NULL. */
static const char *operand_name(const struct layer *layer, int64_t *out_depth)
{
    const inlay_value_info *info = &layer->graph->values[layer->weight].info;

    if (layer->reason != NULL || !layer->multiplies || info->rank != 2 || layer->depth == INLAY_NONE)
        return NULL;
    *out_depth = info->dims[layer->depth].value;
    return *out_depth <= MOMENTS_MOST_DEPTH ? layer->graph->values[layer->node->info.inputs[0]].info.name.data : NULL;
}

static struct operand *find_operand(const struct collector *collector, const char *name)
{
    for (uint32_t k = 0; k < collector->count; k++)
        if (strcmp(collector->operands[k].name, name) == 0)
            return &collector->operands[k];
    return NULL;
}

static void list_operands(struct collector *collector, const layer_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        int64_t depth;
        const char *name = operand_name(&list->items[i], &depth);

        if (name != NULL && find_operand(collector, name) == NULL)
            collector->operands[collector->count++] = (struct operand){ .name = name, .depth = depth };
    }
}

inlay_status moments_gather(const char *path, const inlay_options *options, const struct samples *set,
                            const layer_list *list, uint32_t block,
                            int (*progress)(void *user, double fraction, const char *what), void *user,
                            struct moments *out, inlay_diag *diag)
{
    struct collector collector = {
        .path = path, .options = options, .set = set, .out = out, .block = block, .diag = diag
    };
    inlay_status status = INLAY_OK;

    *out = (struct moments){ 0 };
    out->layers = arena_array(&out->arena, (size_t)list->count + 1, sizeof *out->layers);
    collector.operands = arena_array(&out->arena, (size_t)list->count + 1, sizeof *collector.operands);
    if (out->layers == NULL || collector.operands == NULL)
        return no_memory(collector.diag, "for the moments of activations");
    list_operands(&collector, list);
    for (uint32_t k = 0; k < collector.count;) {
        for (uint64_t bytes = 0; k < collector.count && (bytes == 0 || bytes < MOST_BYTES); k++) {
            const uint64_t more = (uint64_t)(collector.operands[k].depth * collector.operands[k].depth) * sizeof(float);

            collector.operands[k].sums = calloc((size_t)more, 1);
            if (collector.operands[k].sums == NULL) {
                status = no_memory(collector.diag, "for the moments of activations");
                goto done;
            }
            bytes += more;
        }
        INLAY_TRY(run_round(&collector, progress, user));
    }
    for (uint32_t i = 0; i < list->count; i++) {
        int64_t depth;
        const char *name = operand_name(&list->items[i], &depth);
        const struct operand *operand = name == NULL ? NULL : find_operand(&collector, name);

        if (operand != NULL)
            out->layers[i] = (weight_inputs){ operand->importance, operand->factor, operand->order };
    }
done:
    for (uint32_t k = 0; k < collector.count; k++)
        free(collector.operands[k].sums);
    return status;
}

void moments_end(struct moments *moments)
{
    arena_deinit(&moments->arena);
    *moments = (struct moments){ 0 };
}
