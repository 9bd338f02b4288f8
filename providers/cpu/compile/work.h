/* work.h - the arithmetic of an op, and its time. Private to cost.c and work.c. */
#ifndef CPU_COMPILE_WORK_H
#define CPU_COMPILE_WORK_H
#include "cpu/region/build.h"
#include "simd/cpu.h"

/* Rates per nanosecond of a core with AVX-512. */
#define SIMPLE_PER_NS 16.0 /* elements of functions with a few instructions */
#define EXP_PER_NS 6.8     /* elements of Exp, ... */
#define SIGMOID_PER_NS 4.1 /* ... of functions that divide by a sum with one, and Erf */
#define SOFTMAX_PER_NS 4.0
#define GELU_PER_NS 8.0
#define LOG_PER_NS 2.0

typedef struct op_work {
    const cpu_op *op;
    double flops, rate; /* of the reference core with AVX-512, per nanosecond */
    double threads;     /* threads that share the work */
    bool multiplies;    /* mostly multiply-adds */
    bool planar;        /* images are row-major */
    double rows;        /* rows of the output, of planar images and of normalisations */
    double turned;      /* elements that are transposed first */
    bool tiled;         /* along an axis: tiles of columns, not rows */
} op_work;

/* Nanoseconds on a core of this machine, without loads and stores. */
double op_work_ns(const op_work *work, const cpu_pace *reference, const cpu_pace *local);
#endif
