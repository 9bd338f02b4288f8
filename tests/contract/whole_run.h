/* whole_run.h - functions shared by whole_graph.c and whole_run.c. */
#ifndef WHOLE_RUN_H
#define WHOLE_RUN_H
#include "whole.h"

/* clang-format off */
#define WHOLE_OPS(OP) \
    OP(Identity) OP(Neg) OP(Abs) OP(Relu) OP(Not) OP(Cast) OP(Add) OP(Sub) OP(Mul) OP(Mod) OP(Less) OP(Greater) \
    OP(Equal) OP(And) OP(Or) OP(Swish) OP(Sigmoid) OP(If) OP(Loop) OP(Scan)
/* clang-format on */
enum {
#define OP(name) WHOLE_##name,
    WHOLE_OPS(OP)
#undef OP
};

void *whole_alloc(size_t bytes);
whole_value whole_make(inlay_dtype dtype, uint32_t rank, const int64_t *dims);
/* Convert elements from and to the memory layout of tensors. */
void whole_load(whole_value *value, const void *data);
void whole_store(const whole_value *value, void *data);
#endif
