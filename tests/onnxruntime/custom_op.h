/* custom_op.h - what the tests' custom operators have in common: of every version, with required inputs and outputs in
 * the CPU's memory. types.h or api.h is included before. */
#ifndef CUSTOM_OP_H
#define CUSTOM_OP_H
#include <stdint.h>

static inline const char *custom_op_provider(const OrtCustomOp *op)
{
    (void)op;
    return NULL;
}
static inline int custom_op_required(const OrtCustomOp *op, size_t i)
{
    (void)op, (void)i;
    return ORT_REQUIRED;
}
static inline int custom_op_memory(const OrtCustomOp *op, size_t i)
{
    (void)op, (void)i;
    return ORT_MEM_DEFAULT;
}
static inline int custom_op_one(const OrtCustomOp *op)
{
    (void)op;
    return 1;
}
static inline int custom_op_newest(const OrtCustomOp *op)
{
    (void)op;
    return INT32_MAX;
}

#define CUSTOM_OP_COMMON                                                                                               \
    .GetExecutionProviderType = custom_op_provider, .GetInputCharacteristic = custom_op_required,                      \
    .GetOutputCharacteristic = custom_op_required, .GetInputMemoryType = custom_op_memory,                             \
    .GetVariadicInputMinArity = custom_op_one, .GetVariadicInputHomogeneity = custom_op_one,                           \
    .GetVariadicOutputMinArity = custom_op_one, .GetVariadicOutputHomogeneity = custom_op_one,                         \
    .GetStartVersion = custom_op_one, .GetEndVersion = custom_op_newest

/* For operators with one input and one output of floats. */
static inline int custom_op_float(const OrtCustomOp *op, size_t i)
{
    (void)op, (void)i;
    return 1;
}
static inline size_t custom_op_one_port(const OrtCustomOp *op)
{
    (void)op;
    return 1;
}
#define CUSTOM_OP_FLOATS                                                                                               \
    .GetInputType = custom_op_float, .GetInputTypeCount = custom_op_one_port, .GetOutputType = custom_op_float,        \
    .GetOutputTypeCount = custom_op_one_port
#endif
