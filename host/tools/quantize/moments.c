#include "quantize/moments.h"
#include "inlay/check.h"
#include "quantize/loops.h"
#include "threads/threads.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* STRIP columns of a matrix and ROWS rows of activations are processed at once, so that they stay in the first-level
 * caches. */
enum { ROWS = 128, STRIP = 32, ENOUGH_ROWS = 16384 };
static const uint64_t MOST_BYTES = UINT64_C(1) << 29;

/* One value that matrix multiplications read. */
struct read {
    const char *name;
    int64_t depth;
    float *sums; /* [depth, depth], upper triangle; NULL: not in this round */
    uint64_t rows;
    float *importance, *factor; /* the result, see weight_inputs */
    int32_t *order;
};

struct gathering {
    const char *path;
    const inlay_options *options;
    const struct samples *set;
    struct moments *out;
    struct read *reads; /* [count] */
    uint32_t count, block;
    inlay_diag *diag;
};

/* ------------------------------------------------------------------ sums */

/* Rows whose outer products are added to one matrix. */
struct summing {
    struct read *read;
    const float *input;
    int64_t rows;
};

/* Adds to the columns of strips begin .. end, down to the diagonal. */
static inlay_status add_strips(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const struct summing *summing = user;
    const int64_t n = summing->read->depth;

    INLAY_CHECK(summing->read->sums != NULL);
    (void)worker;
    for (int64_t strip = begin; strip < end; strip++) {
        const int64_t from = strip * STRIP, to = from + STRIP < n ? from + STRIP : n;

        for (int64_t k = 0; k < summing->rows; k += ROWS)
            blockmul_add(&(struct blockmul){ .c = summing->read->sums + from,
                                             .a = summing->input + k * n,
                                             .b = summing->input + k * n + from,
                                             .rows = to,
                                             .columns = to - from,
                                             .depth = summing->rows - k < ROWS ? summing->rows - k : ROWS,
                                             .c_row = n,
                                             .a_row = 1,
                                             .a_step = n,
                                             .b_row = n,
                                             .factor = 1 });
    }
    return INLAY_OK;
}

static void add_rows(struct read *read, const float *input, int64_t rows)
{
    struct summing summing = { read, input, rows };

    (void)threads_parallel_for(NULL, (read->depth + STRIP - 1) / STRIP, 1, add_strips,
                               &summing); /* fixed partition, so that sums do not depend on threads */
    read->rows += (uint64_t)rows;
}

static inlay_status add_sample(struct gathering *gathering, const struct subject *subject, inlay_value *const *values)
{
    for (uint32_t k = 0; k < gathering->count; k++) {
        struct read *read = &gathering->reads[k];
        const uint32_t out = inlay_session_find_output(subject->session, read->name);
        const uint32_t in = inlay_session_find_input(gathering->set->of, read->name);
        const inlay_value *value = out != INLAY_NONE  ? inlay_context_output(subject->context, out)
                                   : in != INLAY_NONE ? values[in]
                                                      : NULL;
        inlay_tensor_view view;
        int64_t rows;

        if (read->sums == NULL || value == NULL || read->rows >= ENOUGH_ROWS + 2 * (uint64_t)read->depth)
            continue;
        if (!judge_view(value, &view) || view.dtype != INLAY_FLOAT || view.rank == 0 ||
            view.dims[view.rank - 1] != read->depth)
            return inlay_fail(gathering->diag, INLAY_INVALID_ARGUMENT,
                              "value '%s' is not a float tensor with %lld elements along the last axis", read->name,
                              (long long)read->depth);
        rows = inlay_value_count(value) / read->depth;
        add_rows(read, view.data, rows);
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ factors */

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
struct matter {
    int32_t at;
    double weight;
};

static int most_first(const void *a, const void *b)
{
    const struct matter *left = a, *right = b;

    return left->weight != right->weight ? (left->weight < right->weight) - (left->weight > right->weight)
                                         : (left->at > right->at) - (left->at < right->at);
}

/* Orders blocks by decreasing importance, and likewise the elements of each block: elements that are rounded first have
 * more others left to compensate their error. If the depth is no multiple of the block, the order stays natural, since
 * blocks would be split. False: out of memory. */
static bool find_order(struct gathering *gathering, struct read *read)
{
    const int64_t n = read->depth, blocks = n / gathering->block;
    struct matter *list;

    INLAY_CHECK(gathering->block > 0 && read->importance != NULL);
    if (n % gathering->block != 0)
        return true;
    read->order = arena_array(&gathering->out->arena, (size_t)n, sizeof *read->order);
    list = calloc((size_t)n + (size_t)blocks + 1, sizeof *list);
    if (read->order == NULL || list == NULL) {
        free(list);
        return false;
    }
    for (int64_t b = 0; b < blocks; b++) {
        list[b].at = (int32_t)b;
        for (int64_t i = b * gathering->block; i < (b + 1) * gathering->block; i++)
            list[b].weight += (double)read->importance[i];
    }
    qsort(list, (size_t)blocks, sizeof *list, most_first);
    for (int64_t b = 0; b < blocks; b++) {
        struct matter *in = list + blocks;

        for (int64_t i = 0; i < gathering->block; i++) {
            in[i].at = (int32_t)(list[b].at * (int64_t)gathering->block + i);
            in[i].weight = (double)read->importance[in[i].at];
        }
        qsort(in, gathering->block, sizeof *in, most_first);
        for (int64_t i = 0; i < gathering->block; i++)
            read->order[b * gathering->block + i] = in[i].at;
    }
    free(list);
    return true;
}

/* Element (i, k) of the second moments in the order of rounding. */
static float moment(const struct read *read, int64_t i, int64_t k)
{
    const int64_t a = read->order != NULL ? read->order[i] : i, b = read->order != NULL ? read->order[k] : k;

    return read->sums[(a < b ? a : b) * read->depth + (a < b ? b : a)] / (float)(read->rows > 0 ? read->rows : 1);
}

/* Computes mean squares and order, and allocates the factor. False: out of memory. */
static bool begin_factor(struct gathering *gathering, struct read *read)
{
    const int64_t n = read->depth;

    read->importance = arena_array(&gathering->out->arena, (size_t)n, sizeof *read->importance);
    read->factor = arena_array(&gathering->out->arena, (size_t)(n * n), sizeof *read->factor);
    if (read->importance == NULL || read->factor == NULL)
        return false;
    for (int64_t i = 0; i < n; i++)
        read->importance[i] = read->sums[i * n + i] / (float)(read->rows > 0 ? read->rows : 1);
    return find_order(gathering, read);
}

/* Computes the factor with WEIGHTS_DAMP times the mean added to the diagonal, ten times more whenever that is not
 * enough. False: out of memory. */
static bool find_factor(struct read *read)
{
    const int64_t n = read->depth;
    float *copy = malloc((size_t)(n * n) * sizeof *copy);
    double mean = 0;

    if (copy == NULL)
        return false;
    for (int64_t i = 0; i < n; i++)
        mean += (double)read->importance[i] / (double)n;
    for (double damp = WEIGHTS_DAMP; damp < 1e4; damp *= 10) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = i; k < n; k++)
                copy[i * n + k] = moment(read, i, k);
        for (int64_t i = 0; i < n; i++)
            copy[i * n + i] += (float)(damp * mean);
        if (moments_factor(copy, n, read->factor)) {
            for (int64_t i = 0; i < n; i++)
                for (int64_t k = 0; k < i; k++)
                    read->factor[i * n + k] = moment(read, i, k);
            free(copy);
            return true;
        }
    }
    free(copy);
    read->importance = read->factor = NULL; /* all zeros or not finite: no statistics */
    return true;
}

static inlay_status find_factors(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    struct gathering *gathering = user;

    (void)worker;
    for (int64_t k = begin; k < end; k++)
        if (gathering->reads[k].sums != NULL && !find_factor(&gathering->reads[k]))
            return INLAY_OUT_OF_MEMORY;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ rounds */

static inlay_status run_round(struct gathering *gathering, int (*progress)(void *, double, const char *), void *user)
{
    inlay_options *tapped = NULL;
    struct subject subject = { 0 };
    inlay_value **values = NULL;
    inlay_status status;

    INLAY_TRY(judge_options(gathering->options, NULL, NULL, &tapped, gathering->diag));
    for (uint32_t k = 0; k < gathering->count; k++)
        if (gathering->reads[k].sums != NULL &&
            inlay_session_find_input(gathering->set->of, gathering->reads[k].name) == INLAY_NONE &&
            inlay_session_find_output(gathering->set->of, gathering->reads[k].name) == INLAY_NONE)
            INLAY_TRY(inlay_options_set(tapped, "tap", gathering->reads[k].name, gathering->diag));
    INLAY_TRY(subject_open(gathering->path, tapped, &subject, gathering->diag));
    for (uint32_t i = 0; i < gathering->set->count; i++) {
        if (progress != NULL && progress(user, 0.2 + 0.2 * i / gathering->set->count, "calibrating") != 0) {
            status = inlay_fail(gathering->diag, INLAY_CANCELLED, "stopped at sample %u of %u; nothing was written",
                                i + 1, gathering->set->count);
            goto done;
        }
        INLAY_TRY(samples_load(gathering->set, i, &values, gathering->diag));
        INLAY_TRY(samples_run(gathering->set, values, subject.session, subject.context, gathering->diag));
        INLAY_TRY(add_sample(gathering, &subject, values));
        samples_release(gathering->set, values);
        values = NULL;
    }
    for (uint32_t k = 0; k < gathering->count && status == INLAY_OK; k++)
        if (gathering->reads[k].sums != NULL && !begin_factor(gathering, &gathering->reads[k]))
            status = no_memory(gathering->diag, "for the moments of activations");
    if (status == INLAY_OK && threads_parallel_for(NULL, gathering->count, 1, find_factors, gathering) != INLAY_OK)
        status = no_memory(gathering->diag, "for the moments of activations");
    for (uint32_t k = 0; k < gathering->count; k++) {
        free(gathering->reads[k].sums);
        gathering->reads[k].sums = NULL;
    }
done:
    samples_release(gathering->set, values);
    subject_close(&subject);
    inlay_options_destroy(tapped);
    return status;
}

/* Name of the layer's input if its weights can have 4 bits, otherwise NULL. */
static const char *read_by(const struct layer *layer, int64_t *out_depth)
{
    const inlay_value_info *info = &layer->graph->values[layer->weight].info;

    if (layer->kept != NULL || !layer->multiplies || info->rank != 2 || layer->depth == INLAY_NONE)
        return NULL;
    *out_depth = info->dims[layer->depth].value;
    return *out_depth <= MOMENTS_MOST_DEPTH ? layer->graph->values[layer->node->info.inputs[0]].info.name.data : NULL;
}

static struct read *find_read(const struct gathering *gathering, const char *name)
{
    for (uint32_t k = 0; k < gathering->count; k++)
        if (strcmp(gathering->reads[k].name, name) == 0)
            return &gathering->reads[k];
    return NULL;
}

static void list_reads(struct gathering *gathering, const layer_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        int64_t depth;
        const char *name = read_by(&list->items[i], &depth);

        if (name != NULL && find_read(gathering, name) == NULL)
            gathering->reads[gathering->count++] = (struct read){ .name = name, .depth = depth };
    }
}

inlay_status moments_gather(const char *path, const inlay_options *options, const struct samples *set,
                            const layer_list *list, uint32_t block,
                            int (*progress)(void *user, double fraction, const char *what), void *user,
                            struct moments *out, inlay_diag *diag)
{
    struct gathering gathering = {
        .path = path, .options = options, .set = set, .out = out, .block = block, .diag = diag
    };
    inlay_status status = INLAY_OK;

    *out = (struct moments){ 0 };
    out->layers = arena_array(&out->arena, (size_t)list->count + 1, sizeof *out->layers);
    gathering.reads = arena_array(&out->arena, (size_t)list->count + 1, sizeof *gathering.reads);
    if (out->layers == NULL || gathering.reads == NULL)
        return no_memory(gathering.diag, "for the moments of activations");
    list_reads(&gathering, list);
    for (uint32_t k = 0; k < gathering.count;) {
        for (uint64_t bytes = 0; k < gathering.count && (bytes == 0 || bytes < MOST_BYTES); k++) {
            const uint64_t more = (uint64_t)(gathering.reads[k].depth * gathering.reads[k].depth) * sizeof(float);

            gathering.reads[k].sums = calloc((size_t)more, 1);
            if (gathering.reads[k].sums == NULL) {
                status = no_memory(gathering.diag, "for the moments of activations");
                goto done;
            }
            bytes += more;
        }
        INLAY_TRY(run_round(&gathering, progress, user));
    }
    for (uint32_t i = 0; i < list->count; i++) {
        int64_t depth;
        const char *name = read_by(&list->items[i], &depth);
        const struct read *read = name == NULL ? NULL : find_read(&gathering, name);

        if (read != NULL)
            out->layers[i] = (weight_inputs){ read->importance, read->factor, read->order };
    }
done:
    for (uint32_t k = 0; k < gathering.count; k++)
        free(gathering.reads[k].sums);
    return status;
}

void moments_end(struct moments *moments)
{
    arena_deinit(&moments->arena);
    *moments = (struct moments){ 0 };
}
