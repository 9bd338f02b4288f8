/* guarded_tensor.h - tensors of any type as operands of a kernel, in memory that ends at a guard page. */
#ifndef TESTS_GUARDED_TENSOR_H
#define TESTS_GUARDED_TENSOR_H
#include "cmocka_all.h"
#include "kernel_case.h"
#include "simd/convert.h"

static inline int64_t product(uint32_t rank, const int64_t *dims)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < rank; d++)
        n *= dims[d];
    return n;
}

/* A tensor whose memory ends at a guard page. */
struct tensor {
    struct guard memory;
    inlay_dtype dtype;
    uint32_t rank;
    int64_t dims[8];
    int64_t count;
};

static inline struct tensor make(inlay_dtype dtype, uint32_t rank, const int64_t *dims)
{
    struct tensor t = { .dtype = dtype, .rank = rank, .count = product(rank, dims) };

    for (uint32_t d = 0; d < rank; d++)
        t.dims[d] = dims[d];
    t.memory = guard_alloc((size_t)kit_bytes(dtype, t.count));
    return t;
}

static inline void set(struct tensor *t, int64_t i, double value)
{
    convert_from_f64(t->dtype, t->memory.data, i, 1, &value, CONVERT_SATURATE);
}

static inline double get(const struct tensor *t, int64_t i)
{
    return convert_get_f64(t->dtype, t->memory.data, i);
}

static inline void add_input(kernel_case *c, const struct tensor *t)
{
    kernel_case_input(c, t->dtype, t->rank, t->dims, t->memory.data, false);
}

static inline void add_output(kernel_case *c, const struct tensor *t)
{
    kernel_case_output(c, t->dtype, t->rank, t->dims, t->memory.data);
}

static inline inlay_status run(kernel_case *c, const kit_table *table)
{
    inlay_status status = kernel_case_prepare(c, table);

    if (status == INLAY_OK)
        status = kernel_case_run(c);
    kernel_case_deinit(c);
    return status;
}
#endif
