/* gemm.c - the blocked GEMM, compared with the three loops of its definition: every small size, every type, every
 * kernel of an engine (the microkernels, or a library), packed and not packed. All operands end at a guard page. */
#include "gemm_under_test.h"
#include "gemm_whole.h"
#include "guard.h"
#include "simd/convert.h"
#include "random.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

/* Returns element i of a matrix of that type: a small integer, so that float sums are exact. */
static double value(inlay_dtype dtype, uint64_t i)
{
    return (double)((i * 2654435761u >> 7) % 11) - (dtype == INLAY_UINT8 ? 0 : 5);
}

static void put(void *at, inlay_dtype dtype, int64_t i, double v)
{
    switch (dtype) {
    case INLAY_FLOAT:
        ((float *)at)[i] = (float)v;
        break;
    case INLAY_DOUBLE:
        ((double *)at)[i] = v;
        break;
    case INLAY_INT32:
        ((int32_t *)at)[i] = (int32_t)v;
        break;
    case INLAY_INT64:
        ((int64_t *)at)[i] = (int64_t)v;
        break;
    case INLAY_INT8:
        ((int8_t *)at)[i] = (int8_t)v;
        break;
    case INLAY_BFLOAT16:
        ((uint16_t *)at)[i] = f32_to_bf16((float)v);
        break;
    default:
        ((uint8_t *)at)[i] = (uint8_t)v;
        break;
    }
}

static double get(const void *at, inlay_dtype dtype, int64_t i)
{
    switch (dtype) {
    case INLAY_FLOAT:
        return ((const float *)at)[i];
    case INLAY_DOUBLE:
        return ((const double *)at)[i];
    case INLAY_INT32:
        return ((const int32_t *)at)[i];
    case INLAY_INT64:
        return (double)((const int64_t *)at)[i];
    case INLAY_INT8:
        return ((const int8_t *)at)[i];
    default:
        return ((const uint8_t *)at)[i];
    }
}

static const struct row {
    uint32_t type;
    inlay_dtype in, out;
} rows[] = {
    { GEMM_F32, INLAY_FLOAT, INLAY_FLOAT },     { GEMM_F64, INLAY_DOUBLE, INLAY_DOUBLE },
    { GEMM_U32, INLAY_INT32, INLAY_INT32 },     { GEMM_U64, INLAY_INT64, INLAY_INT64 },
    { GEMM_S16, INLAY_INT8, INLAY_INT32 },      { GEMM_S16, INLAY_UINT8, INLAY_INT32 },
    { GEMM_BF16, INLAY_BFLOAT16, INLAY_FLOAT },
};

static void *aligned_room(struct guard *guard, uint64_t bytes)
{
    *guard = guard_alloc((size_t)((bytes + 63) / 64 * 64));
    return guard->data;
}

static void add_bias(void *user, const gemm_tile *tile)
{
    const struct row *row = user;
    int64_t width = inlay_dtype_bits(row->out) / 8;

    for (int64_t i = tile->i0; i < tile->i1; i++)
        for (int64_t j = tile->j0; j < tile->j1; j++)
            put((char *)tile->c + (i - tile->i0) * tile->c_stride * width, row->out, j - tile->j0, (double)(i + 2 * j));
}

/* A GEMM and its result by the definition; all kernels and modes are compared with this result. */
struct problem {
    const struct row *row;
    int64_t m, n, k;
    double *a, *b, *sums; /* [m, k], [n, k], [m, n] */
};

static struct problem problem_make(const struct row *row, int64_t m, int64_t n, int64_t k)
{
    struct problem problem = { row,
                               m,
                               n,
                               k,
                               malloc((size_t)(m * k) * sizeof(double)),
                               malloc((size_t)(n * k) * sizeof(double)),
                               calloc((size_t)(m * n), sizeof(double)) };

    assert_true(problem.a != NULL && problem.b != NULL && problem.sums != NULL);
    for (int64_t i = 0; i < m * k; i++)
        problem.a[i] = value(row->in, (uint64_t)i);
    for (int64_t i = 0; i < n * k; i++)
        problem.b[i] = value(row->in, (uint64_t)i + 77);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t l = 0; l < k; l++)
                problem.sums[i * n + j] += problem.a[i * k + l] * problem.b[j * k + l];
    return problem;
}

static void problem_free(struct problem *problem)
{
    free(problem->a);
    free(problem->b);
    free(problem->sums);
}

/* Writes lines [count, k] as rows, or as columns. */
static void lay_out(void *to, inlay_dtype dtype, const double *lines, int64_t count, int64_t k, bool as_rows)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t l = 0; l < k; l++)
            put(to, dtype, as_rows ? i * k + l : l * count + i, lines[i * k + l]);
}

static gemm_operand operand(const struct row *row, const void *data, int64_t lines, int64_t k, bool as_rows)
{
    return (gemm_operand){ .pack = gemm_strided_pack(row->type, row->in),
                           .data = data,
                           .line_stride = as_rows ? k : 1,
                           .k_stride = as_rows ? 1 : lines };
}

static struct guard prepack(const gemm_kernel *kernel, uint32_t panel, gemm_operand *operand, int64_t lines, int64_t k)
{
    uint64_t bytes;
    struct guard room;

    assert_true(gemm_packed_bytes(kernel, panel, lines, k, &bytes));
    operand->packed = aligned_room(&room, bytes);
    gemm_pack_whole(kernel, panel, operand, lines, k, room.data);
    return room;
}

static void check_sums(const struct problem *problem, const gemm_kernel *kernel, const void *c, uint32_t mode)
{
    for (int64_t i = 0; i < problem->m; i++) {
        for (int64_t j = 0; j < problem->n; j++) {
            double want = problem->sums[i * problem->n + j] + ((mode & 16) != 0 ? (double)(i + 2 * j) : 0);
            double got = get(c, problem->row->out, i * problem->n + j);
            if (got != want)
                fail_msg("%s type %u mode %u: %dx%dx%d at (%d, %d): %g, not %g", kernel->isa,
                         (unsigned)problem->row->type, (unsigned)mode, (int)problem->m, (int)problem->n,
                         (int)problem->k, (int)i, (int)j, got, want);
        }
    }
}

/* mode bit 0: A transposed, 1: B transposed, 2: A prepacked, 3: B prepacked, 4: starts from a bias */
static void check(const struct problem *problem, const gemm_kernel *kernel, uint32_t mode, uint32_t threads)
{
    const struct row *row = problem->row;
    int64_t m = problem->m, n = problem->n, k = problem->k, in = inlay_dtype_bits(row->in) / 8,
            out = inlay_dtype_bits(row->out) / 8;
    bool ta = mode & 1, tb = mode & 2;
    struct guard a = guard_alloc((size_t)(m * k * in)), b = guard_alloc((size_t)(k * n * in));
    struct guard guard = guard_alloc((size_t)(m * n * out)), work, pa = { 0 }, pb = { 0 };
    gemm_job job = { .kernel = kernel, .batch = 1, .m = m, .n = n, .k = k, .c = guard.data, .c_stride = n };
    uint64_t bytes;

    lay_out(a.data, row->in, problem->a, m, k, !ta);
    lay_out(b.data, row->in, problem->b, n, k, tb);
    job.a = operand(row, a.data, m, k, !ta);
    job.b = operand(row, b.data, n, k, tb);
    job.b.in_place = !tb && kernel->k_step == 1;
    if ((mode & 4) != 0 && (kernel->packs & GEMM_PACKS_A) != 0)
        pa = prepack(kernel, kernel->mr, &job.a, m, k);
    if ((mode & 8) != 0 && (kernel->packs & GEMM_PACKS_B) != 0)
        pb = prepack(kernel, kernel->nr, &job.b, n, k);
    if (mode & 16) {
        job.init = add_bias;
        job.init_user = (void *)(uintptr_t)row;
    }
    gemm_plan(&job, threads);
    assert_true(gemm_workspace(&job, 1, &bytes));
    gemm_run_serial(&job, 0, aligned_room(&work, bytes));
    check_sums(problem, kernel, guard.data, mode);
    guard_free(&a);
    guard_free(&b);
    guard_free(&guard);
    guard_free(&work);
    if (pa.map != NULL)
        guard_free(&pa);
    if (pb.map != NULL)
        guard_free(&pb);
}

static void small_sizes(void **state)
{
    uint32_t mode = 0;

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        for (int64_t m = 1; m <= 20; m++) {
            for (int64_t n = 1; n <= 20; n++) {
                for (int64_t k = 1; k <= 20; k += rows[row].type == GEMM_F32 ? 1 : 3) {
                    struct problem problem;
                    const gemm_kernel *kernel;

                    if (!random_takes((uint64_t)(m + n + k)))
                        continue;
                    problem = problem_make(&rows[row], m, n, k);
                    for (uint32_t i = 0; (kernel = gemm_under_test(rows[row].type, i)) != NULL; i++)
                        check(&problem, kernel, mode++ & 31, 1);
                    problem_free(&problem);
                }
            }
        }
    }
}

/* Sizes around the borders of panels, blocks and tiles. */
static void large_sizes(void **state)
{
    static const int64_t sizes[][3] = {
        { 1, 100, 1000 },  { 3, 49, 257 },   { 8, 48, 256 },   { 9, 97, 513 },   { 25, 144, 600 },
        { 64, 1, 300 },    { 300, 49, 65 },  { 130, 500, 31 }, { 65, 400, 300 }, { 1200, 7, 130 },
        { 70, 130, 1000 }, { 40, 700, 600 }, { 20, 1500, 40 },
    };

    (void)state;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++) {
            struct problem problem = problem_make(&rows[row], sizes[size][0], sizes[size][1], sizes[size][2]);
            const gemm_kernel *kernel;
            for (uint32_t i = 0; (kernel = gemm_under_test(rows[row].type, i)) != NULL; i++)
                for (uint32_t mode = 0; mode < 32; mode += rows[row].type == GEMM_F32 ? 1 : 7)
                    if (random_takes(mode + size))
                        check(&problem, kernel, mode, 1 + (mode & 3) * 2);
            problem_free(&problem);
        }
    }
}

/* No products at all: zeros, or the bias. */
static void empty_depth(void **state)
{
    float c[6] = { 9, 9, 9, 9, 9, 9 };
    gemm_job job = {
        .kernel = gemm_under_test(GEMM_F32, 0), .batch = 1, .m = 2, .n = 3, .k = 0, .c = c, .c_stride = 3
    };
    static char work[1 << 20] __attribute__((aligned(64)));

    (void)state;
    job.a.pack = job.b.pack = gemm_strided_pack(GEMM_F32, INLAY_FLOAT);
    gemm_plan(&job, 1);
    assert_true(job.thread_bytes <= sizeof work);
    gemm_run_serial(&job, 0, work);
    for (int i = 0; i < 6; i++)
        assert_true(c[i] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_sizes),
        cmocka_unit_test(large_sizes),
        cmocka_unit_test(empty_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
