/* bench_gemm - GFLOP/s of matrix multiplications on one thread, for shapes of real models. Not a test. */
#include "operators/gemm/set.h"
#include "gemm_whole.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec timespec;
    clock_gettime(CLOCK_MONOTONIC, &timespec);
    return (double)timespec.tv_sec + 1e-9 * (double)timespec.tv_nsec;
}

static void time_job(uint32_t type, inlay_dtype dtype, int64_t m, int64_t n, int64_t k, bool pack_a, bool pack_b,
                     bool b_transposed, uint32_t which)
{
    const gemm_kernel *kernel = gemm_kernel_at(type, which);
    size_t in = inlay_dtype_bits(dtype) / 8;
    uint64_t bytes = 0;
    char *a = aligned_alloc(64, ((size_t)(m * k) * in + 63) / 64 * 64),
         *b = aligned_alloc(64, ((size_t)(k * n) * in + 63) / 64 * 64);
    char *c = aligned_alloc(64, (size_t)(m * n) * 8 + 64 - (size_t)(m * n) * 8 % 64), *pa = NULL, *pb = NULL, *work;
    gemm_job job = { .kernel = kernel, .batch = 1, .m = m, .n = n, .k = k, .c = c, .c_stride = n };
    double best = 1e30, spent = 0;

    if (kernel == NULL || a == NULL || b == NULL || c == NULL)
        return;
    memset(a, 0, (size_t)(m * k) * in);
    memset(b, 0, (size_t)(n * k) * in);
    job.a = (gemm_operand){ .pack = gemm_strided_pack(type, dtype), .data = a, .line_stride = k, .k_stride = 1 };
    job.b = (gemm_operand){ .pack = job.a.pack,
                            .data = b,
                            .line_stride = b_transposed ? k : 1,
                            .k_stride = b_transposed ? 1 : n,
                            .in_place = !b_transposed && type != GEMM_S16 };
    if (pack_a && gemm_packed_bytes(kernel, kernel->mr, m, k, &bytes)) {
        pa = aligned_alloc(64, bytes);
        gemm_pack_whole(kernel, kernel->mr, &job.a, m, k, pa);
        job.a.packed = pa;
    }
    if (pack_b && gemm_packed_bytes(kernel, kernel->nr, n, k, &bytes)) {
        pb = aligned_alloc(64, bytes);
        gemm_pack_whole(kernel, kernel->nr, &job.b, n, k, pb);
        job.b.packed = pb;
    }
    gemm_plan(&job, 1);
    work = aligned_alloc(64, job.thread_bytes + 64);
    for (int i = 0; i < 3 || spent < 0.15; i++) {
        double t = now();
        gemm_run_serial(&job, 0, work);
        t = now() - t;
        spent += t;
        best = t < best ? t : best;
    }
    printf("%-7s %-6s m%-5d n%-5d k%-5d %s%s%s %9.4f ms %8.1f G/s  b %6.1f GB/s\n", inlay_dtype_name(dtype),
           kernel->isa, (int)m, (int)n, (int)k, pack_a ? "packedA " : "", pack_b ? "packedB " : "",
           b_transposed ? "Bt" : "", best * 1e3, 2e-9 * (double)m * (double)n * (double)k / best,
           1e-9 * (double)n * (double)k * (double)in / best);
    free(a);
    free(b);
    free(c);
    free(pa);
    free(pb);
    free(work);
}

int main(void)
{
    static const int64_t shapes[][3] = {
        { 1024, 1024, 1024 }, { 512, 512, 512 },  { 128, 128, 128 }, { 64, 3136, 64 },  { 64, 3136, 576 },
        { 128, 784, 1152 },   { 256, 196, 2304 }, { 512, 49, 4608 }, { 2048, 49, 512 }, { 12, 128, 64 },
        { 128, 768, 768 },    { 1, 4096, 4096 },  { 1, 1000, 2048 }, { 4, 1024, 1024 },
    };
    for (uint32_t which = 0; which < 3; which++)
        time_job(GEMM_F32, INLAY_FLOAT, 512, 512, 512, true, true, false, which);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int64_t *shape = shapes[i];
        time_job(GEMM_F32, INLAY_FLOAT, shape[0], shape[1], shape[2], true, false, false, 0);
        time_job(GEMM_F32, INLAY_FLOAT, shape[0], shape[1], shape[2], false, true, false, 0);
        time_job(GEMM_F32, INLAY_FLOAT, shape[0], shape[1], shape[2], false, false, false, 0);
        time_job(GEMM_F32, INLAY_FLOAT, shape[0], shape[1], shape[2], false, false, true, 0);
    }
    time_job(GEMM_F64, INLAY_DOUBLE, 512, 512, 512, false, false, false, 0);
    time_job(GEMM_S16, INLAY_INT8, 512, 512, 512, false, false, false, 0);
    time_job(GEMM_S16, INLAY_INT8, 512, 512, 512, true, false, false, 0);
    time_job(GEMM_S16, INLAY_INT8, 512, 512, 512, true, true, false, 0);
    time_job(GEMM_U32, INLAY_INT32, 512, 512, 512, false, false, false, 0);
    time_job(GEMM_F32, INLAY_FLOAT16, 512, 512, 512, false, true, false, 0);
    return 0;
}
