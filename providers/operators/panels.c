/* panels.c - packs weights for multiplications of few rows, see panels.h. */
#include "common/price.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "operators/panels.h"
#include "simd/convert.h"
#include "simd/cpu.h"
#include "operators/panels/set.h"
#include <math.h>

static int64_t lanes_of(const struct panels *panels)
{
    return PANEL_BLOCK_BYTES / (panels->wide ? (int64_t)sizeof(double) : (int64_t)sizeof(float));
}

bool panels_describe(struct panels *panels)
{
    int64_t lanes = lanes_of(panels), each = panels->columns / lanes + (panels->columns % lanes != 0);
    uint64_t bytes;

    INLAY_CHECK(panels->gates >= 1 && panels->gates <= PANEL_MAX_BLOCKS && panels->depth >= 0 && panels->columns >= 0);
    panels->width = panels->gates * (PANEL_MAX_BLOCKS / panels->gates);
    if (__builtin_mul_overflow(each, (int64_t)panels->gates, &panels->blocks) ||
        __builtin_mul_overflow(panels->blocks, lanes, &panels->stored) ||
        __builtin_mul_overflow((uint64_t)panels->blocks, (uint64_t)panels->depth, &bytes) ||
        __builtin_mul_overflow(bytes, (uint64_t)PANEL_BLOCK_BYTES, &panels->bytes) || panels->bytes > INT64_MAX / 4)
        return false;
    panels->count = panels->blocks / panels->width + (panels->blocks % panels->width != 0);
    return true;
}

/* Elements of a line that are converted together: enough for hardware prefetch, and few enough that the written
 * cache lines fit into the first-level cache. */
enum { AT_ONCE = 64 };

/* Converts at most AT_ONCE elements, at any alignment. */
static void convert(bool wide, const panels_source *from, int64_t at, int64_t count, void *to)
{
    const size_t bytes = inlay_dtype_bits(from->dtype) / 8;
    const char *data = from->data;
    double aligned[AT_ONCE];

    INLAY_CHECK(count <= AT_ONCE);
    if ((uintptr_t)data % bytes != 0) {
        memcpy(aligned, data + (size_t)at * bytes, (size_t)count * bytes);
        data = (const char *)aligned;
        at = 0;
    }
    if (wide)
        convert_to_f64(to, from->dtype, data, at, count);
    else
        convert_to_f32(to, from->dtype, data, at, count);
}

/* Packs one block of `lines` columns from `first` on into the panel; elements are `step` bytes apart from one k to
 * the next. */
static void pack_block(const struct panels *panels, const panels_source *from, int64_t first, int64_t lines,
                       int64_t step, char *to)
{
    const int64_t lanes = lanes_of(panels), bytes = PANEL_BLOCK_BYTES / lanes;
    double room[AT_ONCE]; /* some k of one line, as floats or doubles */

    if (lines < lanes)
        for (int64_t k = 0; k < panels->depth; k++)
            memset(to + k * step, 0, PANEL_BLOCK_BYTES);
    if (from->line_stride == 1) {
        for (int64_t k = 0; k < panels->depth; k++)
            convert(panels->wide, from, first + k * from->k_stride, lines, to + k * step);
        return;
    }
    for (int64_t k0 = 0; k0 < panels->depth; k0 += AT_ONCE) {
        const int64_t count = panels->depth - k0 < AT_ONCE ? panels->depth - k0 : AT_ONCE;
        for (int64_t j = 0; j < lines; j++) {
            char *column = to + k0 * step + j * bytes;

            convert(panels->wide, from, (first + j) * from->line_stride + k0, count, room);
            for (int64_t k = 0; k < count && panels->wide; k++) /* constant sizes let the compiler inline memcpy */
                memcpy(column + k * step, &room[k], sizeof(double));
            for (int64_t k = 0; k < count && !panels->wide; k++)
                memcpy(column + k * step, (const char *)room + k * (int64_t)sizeof(float), sizeof(float));
        }
    }
}

void panels_pack(const struct panels *panels, const panels_source *from, int64_t first, int64_t end, void *packed)
{
    const int64_t lanes = lanes_of(panels);

    INLAY_CHECK(first >= 0 && end <= panels->count);
    for (int64_t i = first; i < end; i++) {
        const int64_t b0 = i * panels->width,
                      b1 = b0 + panels->width < panels->blocks ? b0 + panels->width : panels->blocks;
        char *panel = (char *)packed + b0 * panels->depth * PANEL_BLOCK_BYTES;
        for (int64_t b = b0; b < b1; b++) {
            const int64_t column = b / panels->gates * lanes, rest = panels->columns - column;
            pack_block(panels, from, b % panels->gates * panels->columns + column, rest < lanes ? rest : lanes,
                       (b1 - b0) * PANEL_BLOCK_BYTES, panel + (b - b0) * PANEL_BLOCK_BYTES);
        }
    }
}

void panels_add_vector(const struct panels *panels, const void *data, inlay_dtype dtype, int64_t first, void *to)
{
    const panels_source from = { .data = data, .dtype = dtype };
    const int64_t lanes = lanes_of(panels);

    for (int64_t b = 0; b < panels->blocks; b++) {
        const int64_t column = b / panels->gates * lanes, rest = panels->columns - column,
                      count = rest < lanes ? rest : lanes;
        double room[PANEL_BLOCK_BYTES / sizeof(float)]; /* floats or doubles */
        convert(panels->wide, &from, first + b % panels->gates * panels->columns + column, count, room);
        for (int64_t j = 0; j < count && panels->wide; j++)
            ((double *)to)[b * lanes + j] += room[j];
        for (int64_t j = 0; j < count && !panels->wide; j++)
            ((float *)to)[b * lanes + j] += ((const float *)(const void *)room)[j];
    }
}

panels_fn panels_product_at(bool wide, uint32_t i)
{
    panels_fn found[CPU_LEVEL_COUNT];
    uint32_t count = 0;

#if defined(__x86_64__) && !defined(SIMD_ONLY)
    if (cpu_uniform() != CPU_UNIFORM_NO)
        return i > 0 ? NULL : wide ? KERNEL_BEST(panels_f64) : KERNEL_BEST(panels_f32);
    if (cpu_has(CPU_AVX512))
        found[count++] = wide ? panels_f64_avx512 : panels_f32_avx512;
    if (cpu_has(CPU_AVX2))
        found[count++] = wide ? panels_f64_avx2 : panels_f32_avx2;
    found[count++] = wide ? panels_f64_c : panels_f32_c;
#else
    found[count++] = wide ? KERNEL_BEST(panels_f64) : KERNEL_BEST(panels_f32);
#endif
    return i < count ? found[i] : NULL;
}

panels_fn panels_product(bool wide)
{
    return panels_product_at(wide, 0);
}

#define NEAR_SHARE 0.88    /* of the rate of the second level that rows of weights reach */
#define FETCHED_AHEAD 1.45 /* weights from the third level, which are read in order, relative to other data */
#define SHARED_PART 0.75   /* of the third level that weights may fill */
#define PEAK_FLOPS 320.0   /* of a core of pace 1 */
#define DENSE_SHARE 0.95   /* of the core's multiply-adds ... */
#define DENSE_FLOPS 200.0  /* ... up to the limit of loads and stores */
#define UNIFORM_SHARE 0.66 /* of the multiply-adds of the baseline, for sums that are the same on every CPU */

panels_rates panels_rates_here(const inlay_host *host)
{
    const inlay_speed *speed = cpu_measured_speed(host);
    const price_memory memory = price_memory_of(host);
    const double pace = cpu_local_pace(speed).multiply, peak = PEAK_FLOPS * pace;

    return (panels_rates){ .flops = cpu_uniform() != CPU_UNIFORM_NO && speed != NULL
                                        ? UNIFORM_SHARE * speed->flops_baseline
                                        : fmin(DENSE_SHARE * peak, DENSE_FLOPS),
                           .near = NEAR_SHARE * memory.near,
                           .shared = fmin(FETCHED_AHEAD * memory.shared, NEAR_SHARE * memory.near),
                           .far = memory.memory,
                           .near_size = memory.near_size,
                           .shared_size = SHARED_PART * memory.size,
                           .pace = pace };
}

double panels_ns(const struct panels *panels, int64_t rows, uint64_t resident, const panels_rates *rates)
{
    const double operations = 2.0 * (double)rows * (double)panels->stored * (double)panels->depth,
                 bytes = (double)panels->bytes, passes = (double)((rows + 5) / 6);
    const double work = operations / rates->flops * (panels->wide ? 2 : 1);
    const double rate = (double)resident < rates->near_size     ? rates->near
                        : (double)resident < rates->shared_size ? rates->shared
                                                                : rates->far;
    /* Further passes over the rows read the panel from the cache. */
    const double memory = bytes / rate + (passes > 0 ? passes - 1 : 0) * bytes / rates->near;

    return price_overlapped_ns(work, memory);
}
