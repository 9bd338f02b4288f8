/* Products of row-major matrices that are not packed, in blocks of rows and columns that each run on one thread, with
 * sums in short chains (sgemm_chain with strict = true). */
#include "cpu/choice/kernels.h"
#include "cpu/product/product.h"
#include "inlay/check.h"

enum { MAX_UNITS = 64, MIN_WORK = 1 << 20, FEW_ROWS = 48, FEW_COLUMNS = 64 };
#define NS_OF_WORK 0.02 /* for one multiplication */
enum { WAKE_NS = 10000 };

typedef struct blocked_gemm {
    cpu_native native;
    int64_t batch, groups, m, n, k;
    int64_t rows, columns; /* of a block */
} blocked_gemm;

typedef struct gemm_call {
    const blocked_gemm *gemm;
    void *const *args;
} gemm_call;

enum { ARG_A, ARG_B, ARG_Y };

static int64_t parts_of(int64_t count, int64_t each)
{
    return (count + each - 1) / each;
}

static int64_t smaller(int64_t first, int64_t second)
{
    return first < second ? first : second;
}

static void one_block(const gemm_call *call, int64_t unit)
{
    const blocked_gemm *gemm = call->gemm;
    const int64_t down = parts_of(gemm->m, gemm->rows), across = parts_of(gemm->n, gemm->columns),
                  matrix = unit / (down * across), group = matrix % gemm->groups;
    const int64_t row = unit / across % down * gemm->rows, column = unit % across * gemm->columns;
    const sgemm_job job = {
        .kernel = sgemm_kernel_best(),
        .m = smaller(gemm->rows, gemm->m - row),
        .n = smaller(gemm->columns, gemm->n - column),
        .k = gemm->k,
        .chain = sgemm_chain(gemm->k, true),
        .a = (const float *)call->args[ARG_A] + row * gemm->groups * gemm->k + group * gemm->k,
        .a_row = gemm->groups * gemm->k,
        .b = (const float *)call->args[ARG_B] + matrix * gemm->k * gemm->n + column,
        .width = SGEMM_WIDTH,
        .b_panel = SGEMM_WIDTH,
        .b_step = gemm->n,
        .c = (float *)call->args[ARG_Y] + (matrix / gemm->groups * gemm->m + row) * gemm->groups * gemm->n +
             group * gemm->n + column,
        .c_row = gemm->groups * gemm->n,
    };

    INLAY_CHECK(matrix >= 0 && matrix < gemm->batch * gemm->groups && job.m > 0 && job.n > 0 && job.k > 0);
    sgemm_run(&job, 0, sgemm_units(&job));
}

static inlay_status blocks(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    (void)worker;
    for (int64_t unit = begin; unit < end; unit++)
        one_block(user, unit);
    return INLAY_OK;
}

static inlay_status run_cut(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                            uint32_t threads)
{
    const blocked_gemm *gemm = (const blocked_gemm *)(const void *)native;
    const int64_t matrices = gemm->batch * gemm->groups,
                  units = matrices * parts_of(gemm->m, gemm->rows) * parts_of(gemm->n, gemm->columns);
    const double ns = NS_OF_WORK * (double)matrices * (double)gemm->m * (double)gemm->n * (double)gemm->k;
    gemm_call call = { gemm, args };

    (void)threads; /* a single thread, too, runs by parallel_for, which ends early if the run is cancelled */
    if (units < 2 || ns < WAKE_NS)
        return blocks(&call, 0, units, 0);
    return state->host->parallel_for(state->host->ctx, run, units, 1, blocks, &call);
}

/* Divides the product by sizes alone, not by threads, so that results do not depend on threads. */
static void divide(blocked_gemm *gemm)
{
    gemm->rows = gemm->m;
    gemm->columns = gemm->n;
    while (gemm->batch * gemm->groups * parts_of(gemm->m, gemm->rows) * parts_of(gemm->n, gemm->columns) < MAX_UNITS &&
           (double)gemm->rows * (double)gemm->columns * (double)gemm->k >= 2.0 * MIN_WORK) {
        if (gemm->columns > FEW_COLUMNS && (gemm->columns >= gemm->rows || gemm->rows <= FEW_ROWS))
            gemm->columns = parts_of(gemm->columns / 2, FEW_COLUMNS) * FEW_COLUMNS;
        else if (gemm->rows > FEW_ROWS)
            gemm->rows = parts_of(gemm->rows / 2, FEW_ROWS / 2) * (FEW_ROWS / 2);
        else
            break;
    }
}

inlay_status cpu_emit_cut(cpu_build *build, const cpu_place *place, const cpu_place *weights, int64_t batch,
                          int64_t groups, int64_t m, int64_t k, int64_t n, const cpu_place *output)
{
    blocked_gemm gemm = { .native.run = run_cut, .batch = batch, .groups = groups, .m = m, .n = n, .k = k };

    divide(&gemm);
    return cpu_emit_step(build, &gemm.native, sizeof gemm, (const cpu_place *const[]){ place, weights, output }, 3);
}
