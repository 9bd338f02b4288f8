/* The time of an op's arithmetic.
 *
 * On this machine it is not that of the reference core divided by one number: with half of the multipliers, a matrix
 * multiplication comes closer to their limit, because loads and stores are hidden behind more of them. AVX2 has no
 * instructions for exponents of floats, and computes functions in two steps where AVX-512 needs one. */
#include "cpu/compile/work.h"
#include "inlay/check.h"
#include <math.h>
#include <string.h>

#define REFERENCE_FLOPS 320.0
#define TANH_PER_NS 3.8
#define SQRT_PER_NS 5.0
#define SINE_PER_NS 2.2
#define DENSE_SHARE 0.97   /* of the core's multiply-adds that a matrix multiplication can use */
#define AVX2_FUNCTIONS 1.4 /* time of functions with exponents, relative to AVX-512 of the same speed */
#define AVX2_ROWS 1.4      /* time of the starts and ends of rows, relative to AVX-512 */
#define ROW_NS 5.0         /* start and end of a row of an image; per step of the window */
#define VECTOR_ROW_NS 9.0  /* start and end of a row that is normalised; by its squares alone; ... */
#define SQUARED_ROW_NS 5.0
#define AVX2_VECTOR_ROW_NS 28.0 /* ... the same with AVX2 */
#define AVX2_SQUARED_ROW_NS 33.0
#define SOFTMAX_ROW_NS 8.0
#define REDUCED_ROW_NS 5.0 /* ... that is reduced to a number */
#define TURNED_NS 0.14     /* an element of short rows, which are transposed, and of results that are transposed back */
#define COLUMNS_PER_NS 1.9 /* elements of a Softmax of columns */
#define PAIR_ROW_NS 2.5    /* ... of two operands of which one is broadcast */
#define PLANE_NS 5.0       /* ... of a channel that is scaled */
#define DIVIDED_PER_NS 6.0 /* quotients */
#define EXTREME_PER_NS 24.0 /* elements of a maximum */
#define SUM_PER_NS 12.7     /* elements of other reductions */
#define POOLED_PER_NS 27.0  /* taps of pools, ... */
#define EXTREME_TAPS 1.25   /* ... and of MaxPool relative to it */
#define RESIZED_PER_NS 2.5  /* elements of resized rows: linear, ... */
#define CUBIC_PER_NS 0.8    /* ... cubic, ... */
#define NEAREST_PER_NS 5.0  /* ... and nearest */
#define RESIZED_ROW_NS 25.0 /* start and end of a resized row, ... */
#define NEAREST_ROW_NS 7.0  /* ... of copied elements */

/* Elements per nanosecond of a function with AVX-512. */
static double function_rate(const cpu_unary *function, double exponents)
{
    switch ((int)function->function) {
    case FUNCTION_SQRT:
        return SQRT_PER_NS;
    case FUNCTION_SOFTPLUS:
        return exponents / (1 / EXP_PER_NS + 1 / LOG_PER_NS);
    case FUNCTION_LOG:
        return exponents * LOG_PER_NS;
    case FUNCTION_HARDSWISH:
        return GELU_PER_NS;
    case FUNCTION_GELU:
    case FUNCTION_GELU_TANH:
        return exponents * GELU_PER_NS;
    case FUNCTION_EXP:
        return exponents * EXP_PER_NS;
    case FUNCTION_TANH:
    case FUNCTION_ERF:
        return exponents * TANH_PER_NS;
    case FUNCTION_SIGMOID:
    case FUNCTION_SWISH:
    case FUNCTION_MISH:
        return exponents * SIGMOID_PER_NS;
    case FUNCTION_SIN:
    case FUNCTION_COS:
        return exponents * SINE_PER_NS;
    case FUNCTION_ELU:
    case FUNCTION_SELU:
    case FUNCTION_CELU:
        return exponents * SOFTMAX_PER_NS;
    default:
        return SIMPLE_PER_NS;
    }
}

/* Operations per nanosecond of an op that mostly multiplies: limited by loads and stores, or by the multipliers. */
static double multiply_rate(const op_work *work, const cpu_pace *reference, const cpu_pace *local)
{
    return fmin(DENSE_SHARE * REFERENCE_FLOPS * local->multiply, work->rate * reference->multiply);
}

static double other_rate(const op_work *work, double exponents)
{
    const cpu_family *family = work->op->row->family;
    double ns = 0;

    if (family->kind == CPU_FAMILY_SOFTMAX)
        return exponents * (work->tiled ? COLUMNS_PER_NS : SOFTMAX_PER_NS);
    if (family->kind == CPU_FAMILY_REDUCE)
        return work->tiled ? SUM_PER_NS
               : strcmp(work->op->row->op_type, "ReduceMax") == 0 || strcmp(work->op->row->op_type, "ReduceMin") == 0
                   ? EXTREME_PER_NS
                   : SUM_PER_NS;
    if (family->kind == CPU_FAMILY_POOL && work->planar && !work->op->window.global)
        return POOLED_PER_NS * (strcmp(work->op->row->op_type, "MaxPool") == 0 ? EXTREME_TAPS : 1) /
               (double)work->op->window.strides[work->op->window.spatial - 1];
    if (family->kind == CPU_FAMILY_RESIZE && work->planar)
        return work->op->resize.rule.mode == RESIZE_NEAREST ? NEAREST_PER_NS
               : work->op->resize.rule.mode == RESIZE_CUBIC ? CUBIC_PER_NS
                                                            : RESIZED_PER_NS;
    if (family->kind == CPU_FAMILY_BINARY && strcmp(work->op->row->op_type, "Div") == 0)
        return DIVIDED_PER_NS;
    if (family->kind != CPU_FAMILY_UNARY)
        return work->rate;
    for (uint32_t i = 0; i < work->op->unary_count; i++)
        ns += 1 / function_rate(&work->op->unary[i], exponents);
    return ns > 0 ? 1 / ns : work->rate;
}

static double norm_row_ns(bool squares)
{
    if (!cpu_has(CPU_AVX512))
        return squares ? AVX2_SQUARED_ROW_NS : AVX2_VECTOR_ROW_NS;
    return squares ? SQUARED_ROW_NS : VECTOR_ROW_NS;
}

/* Time of the starts and ends of rows. Rows of images in other layouts are long. */
static double rows_ns(const op_work *work)
{
    const cpu_family *family = work->op->row->family;
    const bool pools = family->kind == CPU_FAMILY_POOL && !work->op->window.global;

    if (family->kind == CPU_FAMILY_SOFTMAX)
        return work->rows * SOFTMAX_ROW_NS;
    if (family->kind == CPU_FAMILY_LAYER_NORM || family->kind == CPU_FAMILY_RMS_NORM ||
        family->kind == CPU_FAMILY_SKIP_NORM)
        return work->rows * norm_row_ns(family->kind == CPU_FAMILY_RMS_NORM);
    if (family->kind == CPU_FAMILY_REDUCE ||
        (family->kind == CPU_FAMILY_POOL && work->planar && work->op->window.global))
        return work->rows * REDUCED_ROW_NS;
    if (family->kind == CPU_FAMILY_BINARY)
        return work->rows * PAIR_ROW_NS;
    if (family->kind == CPU_FAMILY_NORMALIZE)
        return work->rows * PLANE_NS;
    if (family->kind == CPU_FAMILY_RESIZE && work->planar)
        return work->rows * (work->op->resize.rule.mode == RESIZE_NEAREST ? NEAREST_ROW_NS : RESIZED_ROW_NS);
    if (!work->planar || !pools)
        return 0;
    INLAY_CHECK(work->op->window.spatial > 0);
    return work->rows * ROW_NS * (double)work->op->window.strides[work->op->window.spatial - 1] *
           (cpu_has(CPU_AVX512) ? 1 : AVX2_ROWS);
}

double op_work_ns(const op_work *work, const cpu_pace *reference, const cpu_pace *local)
{
    const double exponents = cpu_has(CPU_AVX512) ? 1 : 1 / AVX2_FUNCTIONS;
    const double rate =
        work->multiplies ? multiply_rate(work, reference, local) : other_rate(work, exponents) * local->other;

    const double turned_ns = work->op->row->family->kind == CPU_FAMILY_SOFTMAX ? 2 * TURNED_NS : TURNED_NS;

    return (work->flops / rate + work->turned * turned_ns + rows_ns(work)) / work->threads;
}
