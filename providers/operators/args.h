/* args.h - checks of axes, indexes and shapes that a model gives. Each failure is one message. */
#ifndef ARGS_H
#define ARGS_H
#include "inlay/kit_call.h"
#include "inlay/kit_node.h"
#include <stdlib.h>
#include <string.h>

/* Converts an axis in [-rank, rank) to [0, rank); fails for other values. `what` names the axis in the message. */
INLAY_NODISCARD static inline inlay_status arg_axis(inlay_diag *diag, int64_t axis, uint32_t rank, const char *what,
                                                    uint32_t *out_axis)
{
    *out_axis = 0;
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s %lld is outside [-%u, %u) for a tensor of rank %u", what,
                          (long long)axis, rank, rank, rank);
    *out_axis = (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
    return INLAY_OK;
}

/* Element i of an int32 or int64 tensor. */
static inline int64_t arg_index(const kit_tensor *tensor, int64_t i)
{
    return tensor->dtype == INLAY_INT32 ? ((const int32_t *)tensor->data)[i] : ((const int64_t *)tensor->data)[i];
}

/* Writes "[2, 3, 4]", truncated to fit. */
static inline const char *arg_dims_text(uint32_t rank, const int64_t *dims, char *text, size_t bytes)
{
    size_t at = 0;

    at += (size_t)snprintf(text, bytes, "[");
    for (uint32_t i = 0; i < rank && at + 24 < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%lld", i > 0 ? ", " : "", (long long)dims[i]);
    (void)snprintf(text + at, bytes - at, "]");
    return text;
}

/* Checks that the output has the shape that the kernel writes, so that kernels never write past a buffer. The check
 * fails only if shape inference and kernel disagree, or if a caller passes other shapes than planned. */
INLAY_NODISCARD static inline inlay_status arg_expect_dims(inlay_diag *diag, const kit_tensor *tensor, uint32_t rank,
                                                           const int64_t *dims)
{
    char have[128], want[128];

    if (tensor->rank == rank && (rank == 0 || memcmp(tensor->dims, dims, rank * sizeof *dims) == 0))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "the output's shape was planned as %s but the inputs make it %s",
                      arg_dims_text(tensor->rank, tensor->dims, have, sizeof have),
                      arg_dims_text(rank, dims, want, sizeof want));
}

/* Allocates a zeroed state for kit_kernel.prepare. */
INLAY_NODISCARD static inline inlay_status arg_allocate_state(size_t bytes, void **out_state, inlay_diag *diag)
{
    *out_state = calloc(1, bytes);
    return *out_state != NULL ? INLAY_OK : inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for the state of a kernel");
}

/* Copies an INTS attribute into a kernel's state; fails if it has more than max values. *out_count is -1 if the
 * attribute is absent. */
INLAY_NODISCARD static inline inlay_status arg_ints(const kit_node *node, const char *name, int64_t *values,
                                                    uint32_t max, int32_t *out_count, inlay_diag *diag)
{
    uint32_t count;
    const int64_t *ints = kit_attr_ints(node->info, name, &count);

    *out_count = -1;
    if (ints == NULL && kit_attr(node->info, name) == NULL)
        return INLAY_OK;
    if (count > max)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "attribute %s has %u values, at most %u are allowed", name, count,
                          max);
    if (count > 0)
        memcpy(values, ints, count * sizeof *values);
    *out_count = (int32_t)count;
    return INLAY_OK;
}
#endif
