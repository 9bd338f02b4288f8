#include "quantize/moments.h"
#include "quantize/levels.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 8, LANES = 8, ENOUGH_ROWS = 16384 };
static const uint64_t MOST_BYTES = UINT64_C(1) << 29;

/* One value that products read. */
typedef struct read {
    const char *name;
    int64_t depth;
    float *sums; /* [depth, depth], the upper triangle; NULL: not in this round */
    uint64_t rows;
    float *importance, *factor; /* what comes of it */
    int32_t *order;
} read;

typedef struct gathering {
    const char *path;
    const inlay_options *options;
    const samples *set;
    moments *out;
    read *reads; /* [count] */
    uint32_t count, block;
    inlay_diag *diag;
} gathering;

static inlay_status no_memory(const gathering *x)
{
    return inlay_fail(x->diag, INLAY_OUT_OF_MEMORY, "no memory for the moments of activations");
}

/* ------------------------------------------------------------------ sums */

/* Adds a few rows at once: the matrix passes through the cache once for all of them. */
LEVELS_BODY add_rows_loops(read *r, const float *x, int64_t rows)
{
    const int64_t n = r->depth;

    for (int64_t i = 0; i < n; i++) {
        float *sums = r->sums + i * n;

        for (int64_t k = 0; k < rows; k++) {
            const float *row = x + k * n, xi = row[i];

            for (int64_t j = i; j < n; j++)
                sums[j] += xi * row[j];
        }
    }
    r->rows += (uint64_t)rows;
}

LEVELS(static, add_rows, (read * r, const float *x, int64_t rows), (r, x, rows))

static inlay_status add_sample(gathering *x, const subject *s, inlay_value *const *values)
{
    for (uint32_t k = 0; k < x->count; k++) {
        read *r = &x->reads[k];
        const uint32_t out = inlay_session_find_output(s->session, r->name);
        const uint32_t in = inlay_session_find_input(x->set->of, r->name);
        const inlay_value *v = out != INLAY_NONE ? inlay_context_output(s->context, out)
                               : in != INLAY_NONE ? values[in] : NULL;
        inlay_tensor_view view;
        int64_t rows;

        if (r->sums == NULL || v == NULL || r->rows >= ENOUGH_ROWS + 2 * (uint64_t)r->depth)
            continue;
        if (!judge_view(v, &view) || view.dtype != INLAY_FLOAT || view.rank == 0 ||
            view.dims[view.rank - 1] != r->depth)
            return inlay_fail(x->diag, INLAY_INVALID_ARGUMENT, "value '%s' is no float tensor of rows of %lld", r->name,
                              (long long)r->depth);
        rows = inlay_value_count(v) / r->depth;
        for (int64_t i = 0; i < rows; i += ROWS)
            add_rows(r, (const float *)view.data + i * r->depth, rows - i < ROWS ? rows - i : ROWS);
    }
    return INLAY_OK;
}

/* ------------------------------------------------------------------ factors */

/* The sum of a[i] * b[i]; lanes, so that it is not one long chain. */
static inline double dot(const float *a, const float *b, int64_t n)
{
    double lanes[LANES] = { 0 }, sum = 0;
    int64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++)
            lanes[k] += (double)a[i + k] * b[i + k];
    for (; i < n; i++)
        sum += (double)a[i] * b[i];
    for (int k = 0; k < LANES; k++)
        sum += lanes[k];
    return sum;
}

/* h = r r' with an upper r, from the last row up; then u is the inverse of r, and u' u that of h. */
LEVELS_BODY factor_loops(float *h, int64_t n, float *u, bool *out_definite)
{
    *out_definite = false;
    for (int64_t j = n - 1; j >= 0; j--) {
        const float *row = h + j * n + j + 1;
        const double square = (double)h[j * n + j] - dot(row, row, n - j - 1);

        if (!(square > 0) || !isfinite(square))
            return;
        h[j * n + j] = (float)sqrt(square);
        for (int64_t i = 0; i < j; i++)
            h[i * n + j] = (float)(((double)h[i * n + j] - dot(h + i * n + j + 1, row, n - j - 1)) / h[j * n + j]);
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        float *out = u + i * n;
        const float pivot = 1 / h[i * n + i];

        memset(out, 0, (size_t)n * sizeof *out);
        for (int64_t k = i + 1; k < n; k++) {
            const float f = -h[i * n + k] * pivot, *from = u + k * n;

            for (int64_t j = k; j < n; j++)
                out[j] += f * from[j];
        }
        out[i] = pivot;
    }
    *out_definite = true;
}

LEVELS(static, factor, (float *h, int64_t n, float *u, bool *out_definite), (h, n, u, out_definite))

bool moments_factor(float *h, int64_t n, float *u)
{
    bool definite;

    factor(h, n, u, &definite);
    return definite;
}

/* A block or an element, and how much it matters. */
typedef struct matter {
    int32_t at;
    double weight;
} matter;

static int most_first(const void *a, const void *b)
{
    const matter *x = a, *y = b;

    return x->weight != y->weight ? (x->weight < y->weight) - (x->weight > y->weight)
                                  : (x->at > y->at) - (x->at < y->at);
}

/* Blocks that matter most come first, and in each the elements that do: what is off in them is made good by the others.
 * Parts of blocks would break them up: then the order stays. False: no memory. */
static bool find_order(gathering *x, read *r)
{
    const int64_t n = r->depth, blocks = n / x->block;
    matter *list;

    if (n % x->block != 0)
        return true;
    r->order = arena_array(&x->out->a, (size_t)n, sizeof *r->order);
    list = calloc((size_t)n + (size_t)blocks + 1, sizeof *list);
    if (r->order == NULL || list == NULL) {
        free(list);
        return false;
    }
    for (int64_t b = 0; b < blocks; b++) {
        list[b].at = (int32_t)b;
        for (int64_t i = b * x->block; i < (b + 1) * x->block; i++)
            list[b].weight += (double)r->importance[i];
    }
    qsort(list, (size_t)blocks, sizeof *list, most_first);
    for (int64_t b = 0; b < blocks; b++) {
        matter *in = list + blocks;

        for (int64_t i = 0; i < x->block; i++) {
            in[i].at = (int32_t)(list[b].at * (int64_t)x->block + i);
            in[i].weight = (double)r->importance[in[i].at];
        }
        qsort(in, x->block, sizeof *in, most_first);
        for (int64_t i = 0; i < x->block; i++)
            r->order[b * x->block + i] = in[i].at;
    }
    free(list);
    return true;
}

/* Element i, k of the second moments in the order of rounding. */
static float moment(const read *r, int64_t i, int64_t k)
{
    const int64_t a = r->order != NULL ? r->order[i] : i, b = r->order != NULL ? r->order[k] : k;

    return r->sums[(a < b ? a : b) * r->depth + (a < b ? b : a)] / (float)(r->rows > 0 ? r->rows : 1);
}

/* Importance and factor, with a hundredth of the mean added to the diagonal, more where that is not enough. */
static bool finish_read(gathering *x, read *r)
{
    const int64_t n = r->depth;
    float *copy;
    double mean = 0;

    r->importance = arena_array(&x->out->a, (size_t)n, sizeof *r->importance);
    r->factor = arena_array(&x->out->a, (size_t)(n * n), sizeof *r->factor);
    copy = malloc((size_t)(n * n) * sizeof *copy);
    if (r->importance == NULL || r->factor == NULL || copy == NULL) {
        free(copy);
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        r->importance[i] = r->sums[i * n + i] / (float)(r->rows > 0 ? r->rows : 1);
        mean += (double)r->importance[i] / (double)n;
    }
    if (!find_order(x, r)) {
        free(copy);
        return false;
    }
    for (double damp = 0.01; damp < 1e4; damp *= 10) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = i; k < n; k++)
                copy[i * n + k] = moment(r, i, k);
        for (int64_t i = 0; i < n; i++)
            copy[i * n + i] += (float)(damp * mean);
        if (moments_factor(copy, n, r->factor)) {
            free(copy);
            return true;
        }
    }
    free(copy);
    r->importance = r->factor = NULL; /* zeros, or no numbers: nothing is known */
    return true;
}

/* ------------------------------------------------------------------ rounds */

static inlay_status run_round(gathering *x, int (*progress)(void *, double, const char *), void *user)
{
    inlay_options *tapped = NULL;
    subject s = { 0 };
    inlay_value **values = NULL;
    inlay_status status;

    INLAY_TRY(judge_options(x->options, NULL, NULL, &tapped, x->diag));
    for (uint32_t k = 0; k < x->count; k++)
        if (x->reads[k].sums != NULL && inlay_session_find_input(x->set->of, x->reads[k].name) == INLAY_NONE &&
            inlay_session_find_output(x->set->of, x->reads[k].name) == INLAY_NONE)
            INLAY_TRY(inlay_options_set(tapped, "tap", x->reads[k].name, x->diag));
    INLAY_TRY(subject_open(x->path, tapped, &s, x->diag));
    for (uint32_t i = 0; i < x->set->count; i++) {
        if (progress != NULL && progress(user, 0.2 + 0.2 * i / x->set->count, "calibrating") != 0) {
            status = inlay_fail(x->diag, INLAY_CANCELLED, "stopped at sample %u of %u; nothing was written", i + 1,
                                x->set->count);
            goto done;
        }
        INLAY_TRY(samples_load(x->set, i, &values, x->diag));
        INLAY_TRY(samples_run(x->set, values, s.session, s.context, x->diag));
        INLAY_TRY(add_sample(x, &s, values));
        samples_release(x->set, values);
        values = NULL;
    }
    for (uint32_t k = 0; k < x->count && status == INLAY_OK; k++) {
        if (x->reads[k].sums != NULL && !finish_read(x, &x->reads[k]))
            status = no_memory(x);
        free(x->reads[k].sums);
        x->reads[k].sums = NULL;
    }
done:
    samples_release(x->set, values);
    subject_close(&s);
    inlay_options_destroy(tapped);
    return status;
}

/* What a layer reads, if its weights may be of 4 bits; NULL: they may not. */
static const char *read_by(const layer *l, int64_t *out_depth)
{
    const inlay_value_info *info = &l->g->values[l->weight].info;

    if (l->kept != NULL || !l->multiplies || info->rank != 2 || l->depth == INLAY_NONE)
        return NULL;
    *out_depth = info->dims[l->depth].value;
    return *out_depth <= MOMENTS_MOST_DEPTH ? l->g->values[l->node->info.inputs[0]].info.name.data : NULL;
}

static read *find_read(const gathering *x, const char *name)
{
    for (uint32_t k = 0; k < x->count; k++)
        if (strcmp(x->reads[k].name, name) == 0)
            return &x->reads[k];
    return NULL;
}

static void list_reads(gathering *x, const layer_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        int64_t depth;
        const char *name = read_by(&list->items[i], &depth);

        if (name != NULL && find_read(x, name) == NULL)
            x->reads[x->count++] = (read){ .name = name, .depth = depth };
    }
}

inlay_status moments_gather(const char *path, const inlay_options *options, const samples *set, const layer_list *list,
                            uint32_t block, int (*progress)(void *user, double fraction, const char *what), void *user,
                            moments *out, inlay_diag *diag)
{
    gathering x = { .path = path, .options = options, .set = set, .out = out, .block = block, .diag = diag };
    inlay_status status = INLAY_OK;

    *out = (moments){ 0 };
    out->layers = arena_array(&out->a, (size_t)list->count + 1, sizeof *out->layers);
    x.reads = arena_array(&out->a, (size_t)list->count + 1, sizeof *x.reads);
    if (out->layers == NULL || x.reads == NULL)
        return no_memory(&x);
    list_reads(&x, list);
    for (uint32_t k = 0; k < x.count;) {
        for (uint64_t bytes = 0; k < x.count && (bytes == 0 || bytes < MOST_BYTES); k++) {
            const uint64_t more = (uint64_t)(x.reads[k].depth * x.reads[k].depth) * sizeof(float);

            x.reads[k].sums = calloc((size_t)more, 1);
            if (x.reads[k].sums == NULL) {
                status = no_memory(&x);
                goto done;
            }
            bytes += more;
        }
        INLAY_TRY(run_round(&x, progress, user));
    }
    for (uint32_t i = 0; i < list->count; i++) {
        int64_t depth;
        const char *name = read_by(&list->items[i], &depth);
        const read *r = name == NULL ? NULL : find_read(&x, name);

        if (r != NULL)
            out->layers[i] = (weight_inputs){ r->importance, r->factor, r->order };
    }
done:
    for (uint32_t k = 0; k < x.count; k++)
        free(x.reads[k].sums);
    return status;
}

void moments_end(moments *m)
{
    arena_deinit(&m->a);
    *m = (moments){ 0 };
}
