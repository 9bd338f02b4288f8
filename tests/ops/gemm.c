/* The blocked matrix product against the three loops of its definition: every small size, every type, every
 * instruction set that this CPU has, packed and not, with all operands ending at a forbidden page. */
#include "gemm.h"
#include "guard.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

/* Element i of a matrix of that type; small integers, so that float sums are exact. */
static double value(uint64_t i)
{
    return (double)((i * 2654435761u >> 7) % 11) - 5;
}

static void put(void *at, inlay_dtype dtype, int64_t i, double v)
{
    switch (dtype) {
    case INLAY_FLOAT: ((float *)at)[i] = (float)v; break;
    case INLAY_DOUBLE: ((double *)at)[i] = v; break;
    case INLAY_INT32: ((int32_t *)at)[i] = (int32_t)v; break;
    case INLAY_INT64: ((int64_t *)at)[i] = (int64_t)v; break;
    case INLAY_INT8: ((int8_t *)at)[i] = (int8_t)v; break;
    default: ((uint8_t *)at)[i] = (uint8_t)(v + 5); break;
    }
}

static double get(const void *at, inlay_dtype dtype, int64_t i)
{
    switch (dtype) {
    case INLAY_FLOAT: return ((const float *)at)[i];
    case INLAY_DOUBLE: return ((const double *)at)[i];
    case INLAY_INT32: return ((const int32_t *)at)[i];
    case INLAY_INT64: return (double)((const int64_t *)at)[i];
    case INLAY_INT8: return ((const int8_t *)at)[i];
    default: return ((const uint8_t *)at)[i];
    }
}

static const struct row {
    uint32_t type;
    inlay_dtype in, out;
} rows[] = {
    { GEMM_F32, INLAY_FLOAT, INLAY_FLOAT },  { GEMM_F64, INLAY_DOUBLE, INLAY_DOUBLE },
    { GEMM_U32, INLAY_INT32, INLAY_INT32 },  { GEMM_U64, INLAY_INT64, INLAY_INT64 },
    { GEMM_S16, INLAY_INT8, INLAY_INT32 },   { GEMM_S16, INLAY_UINT8, INLAY_INT32 },
};

typedef struct matrices {
    guard a, b, c, work, packed_a, packed_b;
} matrices;

static void *aligned_room(guard *g, uint64_t bytes)
{
    *g = guard_alloc((size_t)((bytes + 63) / 64 * 64));
    return g->data;
}

/* mode bit 0: A transposed, 1: B transposed, 2: A packed ahead, 3: B packed ahead, 4: starts from a bias */
static void add_bias(void *user, const gemm_tile *tile)
{
    const struct row *row = user;
    int64_t width = inlay_dtype_bits(row->out) / 8;

    for (int64_t i = tile->i0; i < tile->i1; i++)
        for (int64_t j = tile->j0; j < tile->j1; j++)
            put((char *)tile->c + (i - tile->i0) * tile->c_stride * width, row->out, j - tile->j0, (double)(i + 2 * j));
}

static void check(const struct row *row, const gemm_kernel *kernel, int64_t m, int64_t n, int64_t k, uint32_t mode,
                  uint32_t threads)
{
    int64_t in = inlay_dtype_bits(row->in) / 8, out = inlay_dtype_bits(row->out) / 8;
    bool ta = mode & 1, tb = mode & 2, bias = mode & 16;
    guard a = guard_alloc((size_t)(m * k * in)), b = guard_alloc((size_t)(k * n * in));
    guard c = guard_alloc((size_t)(m * n * out)), work = { 0 }, pa = { 0 }, pb = { 0 };
    gemm_job job = { .kernel = kernel, .batch = 1, .m = m, .n = n, .k = k, .c = c.data, .c_stride = n };
    uint64_t bytes;

    for (int64_t i = 0; i < m * k; i++)
        put(a.data, row->in, i, value((uint64_t)i));
    for (int64_t i = 0; i < n * k; i++)
        put(b.data, row->in, i, value((uint64_t)i + 77));
    job.a = (gemm_operand){ .pack = gemm_strided_pack(row->type, row->in), .data = a.data };
    job.b = job.a;
    job.b.data = b.data;
    job.a.line_stride = ta ? 1 : k;
    job.a.k_stride = ta ? m : 1;
    job.b.line_stride = tb ? k : 1;
    job.b.k_stride = tb ? 1 : n;
    job.b.in_place = !tb && row->type != GEMM_S16;
    if (mode & 4) {
        assert_true(gemm_packed_bytes(kernel, kernel->mr, m, k, &bytes));
        void *to = aligned_room(&pa, bytes);
        gemm_pack_all(kernel, kernel->mr, &job.a, 0, m, k, to);
        job.a.packed = to;
    }
    if (mode & 8) {
        assert_true(gemm_packed_bytes(kernel, kernel->nr, n, k, &bytes));
        void *to = aligned_room(&pb, bytes);
        gemm_pack_all(kernel, kernel->nr, &job.b, 0, n, k, to);
        job.b.packed = to;
    }
    if (bias) {
        job.init = add_bias;
        job.init_user = (void *)(uintptr_t)row;
    }
    gemm_plan(&job, threads);
    assert_true(gemm_workspace(&job, 1, &bytes));
    gemm_run_serial(&job, 0, aligned_room(&work, bytes));
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = bias ? (double)(i + 2 * j) : 0, got = get(c.data, row->out, i * n + j);
            for (int64_t l = 0; l < k; l++)
                sum += get(a.data, row->in, ta ? l * m + i : i * k + l) * get(b.data, row->in, tb ? j * k + l : l * n + j);
            if (got != sum)
                fail_msg("%s type %u mode %u: %dx%dx%d at (%d, %d): %g, not %g", kernel->isa, (unsigned)row->type,
                         (unsigned)mode, (int)m, (int)n, (int)k, (int)i, (int)j, got, sum);
        }
    }
    guard_free(&a);
    guard_free(&b);
    guard_free(&c);
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
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const gemm_kernel *kernel;
        for (uint32_t i = 0; (kernel = gemm_kernel_at(rows[r].type, i)) != NULL; i++)
            for (int64_t m = 1; m <= 20; m++)
                for (int64_t n = 1; n <= 20; n++)
                    for (int64_t k = 1; k <= 20; k += rows[r].type == GEMM_F32 ? 1 : 3)
                        check(&rows[r], kernel, m, n, k, mode++ & 31, 1);
    }
}

/* Sizes around the borders of panels, blocks and tiles. */
static void large_sizes(void **state)
{
    static const int64_t sizes[][3] = {
        { 1, 100, 1000 }, { 3, 49, 257 },  { 8, 48, 256 },   { 9, 97, 513 },   { 25, 144, 600 },
        { 64, 1, 300 },   { 300, 49, 65 }, { 130, 500, 31 }, { 65, 400, 300 }, { 1200, 7, 130 },
    };

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const gemm_kernel *kernel;
        for (uint32_t i = 0; (kernel = gemm_kernel_at(rows[r].type, i)) != NULL; i++)
            for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
                for (uint32_t mode = 0; mode < 32; mode += rows[r].type == GEMM_F32 ? 1 : 7)
                    check(&rows[r], kernel, sizes[s][0], sizes[s][1], sizes[s][2], mode, 1 + (mode & 3) * 2);
    }
}

/* No products at all: zeros, or the bias. */
static void empty_depth(void **state)
{
    float c[6] = { 9, 9, 9, 9, 9, 9 };
    gemm_job job = { .kernel = gemm_kernel_best(GEMM_F32), .batch = 1, .m = 2, .n = 3, .k = 0, .c = c, .c_stride = 3 };
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
