/* 2:4 sparse GEMM: packing, and the loop over panels. The kernels are in sparse24_tiles.c. */
#include "cpu/sparse/sparse24.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum { CHUNKS = 8, EMPTY = 0x44444444 /* positions 0 and 1 of each four */ };

static int64_t steps_of(int64_t k)
{
    return (k + SPARSE24_STEP - 1) / SPARSE24_STEP;
}

bool sparse24_is(const sparse_packed_weights *weights)
{
    for (int64_t k = 0; k < weights->k; k += SPARSE24_K)
        for (int64_t j = 0; j < weights->n; j++) {
            int count = 0;

            for (int64_t p = k; p < k + SPARSE24_K && p < weights->k; p++)
                count += sparse_element(weights, p, j) != 0;
            if (count > 2)
                return false;
        }
    return true;
}

int64_t sparse24_pack_floats(int64_t k, int64_t n)
{
    return sparse_panels(n) * steps_of(k) * SPARSE24_FLOATS;
}

static void clear(int64_t k, int64_t n, float *target)
{
    memset(target, 0, (size_t)sparse24_pack_floats(k, n) * sizeof *target);
    for (int64_t s = 0; s < sparse_panels(n) * steps_of(k); s++, target += SPARSE24_FLOATS)
        for (int64_t j = 0; j < SPARSE_WIDTH; j++)
            ((uint32_t *)(void *)target)[j] = EMPTY;
}

/* The step of a panel that contains k. */
static float *step_at(float *pack, int64_t depth, int64_t panel, int64_t k)
{
    return pack + (panel * steps_of(depth) + k / SPARSE24_STEP) * SPARSE24_FLOATS;
}

/* Stores element (k, j). The elements of a column are stored in the order of k. false: it is the third nonzero
 * element of its four. */
static bool put_element(float *pack, int64_t depth, int64_t k, int64_t j, float x)
{
    float *step = step_at(pack, depth, j / SPARSE_WIDTH, k);
    const int64_t group = k % SPARSE24_STEP / SPARSE24_K;
    uint32_t *word = (uint32_t *)(void *)step + j % SPARSE_WIDTH, at = (uint32_t)(k % SPARSE24_K);
    float *values = step + SPARSE_WIDTH * (1 + 2 * group) + j % SPARSE_WIDTH;
    const uint32_t shift = (uint32_t)(4 * group);

    if (x == 0)
        return true;
    if (values[SPARSE_WIDTH] != 0)
        return false;
    if (values[0] != 0) {
        values[SPARSE_WIDTH] = x;
        *word = (*word & ~(UINT32_C(12) << shift)) | at << (shift + 2);
    } else {
        values[0] = x;
        *word = (*word & ~(UINT32_C(15) << shift)) | (at | (at ^ 1) << 2) << shift;
    }
    return true;
}

bool sparse24_pack(const sparse_packed_weights *weights, float *target)
{
    clear(weights->k, weights->n, target);
    for (int64_t k = 0; k < weights->k; k++)
        for (int64_t j = 0; j < weights->n; j++)
            if (!put_element(target, weights->k, k, j, sparse_element(weights, k, j)))
                return false;
    return true;
}

/* The value of an entry, and its position in the matrix. */
static float read_entry(const sparse_entries *entries, int64_t i, int64_t *out_k, int64_t *out_j)
{
    int64_t at;
    float x;

    memcpy(&x, (const char *)entries->values + i * (int64_t)sizeof x, sizeof x);
    memcpy(&at, (const char *)entries->places + i * (int64_t)sizeof at, sizeof at);
    *out_k = entries->upright ? at / entries->n : at % entries->k;
    *out_j = entries->upright ? at % entries->n : at / entries->k;
    return x;
}

bool sparse24_entries_are(const sparse_entries *entries)
{
    uint8_t *counts = calloc((size_t)((entries->k + SPARSE24_K - 1) / SPARSE24_K * entries->n), 1);
    bool are = counts != NULL && sparse_entries_are_sound(entries);

    for (int64_t i = 0; are && i < entries->count; i++) {
        int64_t k, j;

        if (read_entry(entries, i, &k, &j) != 0)
            are = ++counts[k / SPARSE24_K * entries->n + j] <= 2;
    }
    free(counts);
    return are;
}

bool sparse24_entries_pack(const sparse_entries *entries, float *target)
{
    clear(entries->k, entries->n, target);
    if (!sparse_entries_are_sound(entries))
        return false;
    for (int64_t i = 0; i < entries->count; i++) {
        int64_t k, j;
        const float x = read_entry(entries, i, &k, &j);

        if (!put_element(target, entries->k, k, j, x))
            return false;
    }
    return true;
}

static const sparse24_set *set_of_cpu(void)
{
    return KERNEL_BEST(fours);
}

static const int64_t rows_of[SPARSE24_SIZES] = { 1, 4 };

/* The index of the kernel for `rows` remaining rows. */
static int size_of(int64_t rows)
{
    int size = 0;

    while (rows_of[size] < rows && rows_of[size] < set_of_cpu()->rows)
        size++;
    INLAY_CHECK(size < SPARSE24_SIZES);
    return size;
}

int64_t sparse24_units(const sgemm_job *job)
{
    const int64_t groups = (job->n + SGEMM_WIDTH - 1) / SGEMM_WIDTH;

    return groups < CHUNKS ? groups : CHUNKS;
}

int64_t sparse24_scratch_floats(const sgemm_job *job)
{
    return (job->m + set_of_cpu()->rows) * steps_of(job->k) * SPARSE24_STEP;
}

/* Interleaves rows for a kernel of `size` rows, in groups of four k. Returns whether all elements are finite. */
static bool interleave_rows(const sgemm_job *job, int64_t row, int64_t rows, int64_t size, float *out)
{
    typedef uint32_t quad __attribute__((vector_size(16)));
    const quad infinite = (quad){ 0 } + UINT32_C(0x7f800000);
    quad bad = { 0 };

    INLAY_CHECK(rows <= size);
    memset(out, 0, (size_t)(steps_of(job->k) * SPARSE24_STEP * size) * sizeof *out);
    for (int64_t r = 0; r < rows; r++) {
        const float *a = job->a + (row + r) * job->a_row;
        float *to = out + r * SPARSE24_K;
        int64_t k = 0;
        quad x;

        for (; k + SPARSE24_K <= job->k; k += SPARSE24_K, to += size * SPARSE24_K) {
            memcpy(&x, a + k, sizeof x);
            memcpy(to, &x, sizeof x);
            bad |= (quad)((x & infinite) == infinite);
        }
        x = (quad){ 0 };
        for (int64_t i = 0; k + i < job->k; i++)
            memcpy((char *)&x + i * (int64_t)sizeof *a, a + k + i, sizeof *a);
        if (k < job->k)
            memcpy(to, &x, sizeof x);
        bad |= (quad)((x & infinite) == infinite);
    }
    return (bad[0] | bad[1] | bad[2] | bad[3]) == 0;
}

/* Sets the elements of C to NaN whose row has NaN or infinity at a k whose zero was not packed. */
static void propagate_nan(const sgemm_job *job, int64_t row, int64_t panel, int64_t last)
{
    for (int64_t k = 0; k < job->k; k++) {
        const float *step = job->b + (panel * steps_of(job->k) + k / SPARSE24_STEP) * SPARSE24_FLOATS;

        if (isfinite(job->a[row * job->a_row + k]))
            continue;
        for (int64_t j = 0; j < last; j++) {
            const uint32_t places = ((const uint32_t *)(const void *)step)[j] >> k % SPARSE24_STEP / SPARSE24_K * 4;

            if ((places & 3) != k % SPARSE24_K && (places >> 2 & 3) != k % SPARSE24_K)
                job->c[row * job->c_row + panel * SPARSE_WIDTH + j] = NAN;
        }
    }
}

/* Multiplies all rows by a panel. */
static void multiply(const sgemm_job *job, const float *turned, bool finite, int64_t panel)
{
    const sparse24_set *set = set_of_cpu();
    const int64_t at = panel * SPARSE_WIDTH, steps = steps_of(job->k);
    sparse24_tile tile = { .panel = job->b + panel * steps * SPARSE24_FLOATS,
                           .steps = steps,
                           .a = turned,
                           .c = job->c + at,
                           .c_row = job->c_row,
                           .last = (uint32_t)(job->n - at < SPARSE_WIDTH ? job->n - at : SPARSE_WIDTH) };

    for (int64_t row = 0; row < job->m; row += set->rows) {
        const int size = size_of(job->m - row);

        tile.rows = job->m - row;
        set->multiply[size](&tile);
        tile.a += steps * SPARSE24_STEP * rows_of[size];
        tile.c += set->rows * tile.c_row;
    }
    for (int64_t row = 0; !finite && row < job->m; row++)
        propagate_nan(job, row, panel, tile.last);
}

void sparse24_run(const sgemm_job *job, float *scratch, int64_t begin, int64_t end)
{
    const int64_t groups = (job->n + SGEMM_WIDTH - 1) / SGEMM_WIDTH, units = sparse24_units(job),
                  most = set_of_cpu()->rows;
    float *to = scratch;
    bool finite = true;

    for (int64_t row = 0; row < job->m; row += most) {
        const int64_t rows = job->m - row < most ? job->m - row : most, size = rows_of[size_of(rows)];

        finite &= interleave_rows(job, row, rows, size, to);
        to += steps_of(job->k) * SPARSE24_STEP * size;
    }
    for (int64_t g = groups * begin / units; g < groups * end / units; g++) {
        for (int64_t p = g * SGEMM_WIDTH / SPARSE_WIDTH;
             p < (g + 1) * SGEMM_WIDTH / SPARSE_WIDTH && p < sparse_panels(job->n); p++)
            multiply(job, scratch, finite, p);
        sparse_finish(job, 0, job->m, g * SGEMM_WIDTH);
    }
}
