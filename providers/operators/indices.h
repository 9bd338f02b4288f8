/* indices.h - validation of indices given by a tensor of the model. */
#ifndef INDICES_H
#define INDICES_H
#include "operators/instance.h"
#include "inlay/kit_call.h"

/* Returns whether indices [first, first + count) are all in [-dim, dim). Called by parts of a parallel loop, each for
 * the indices that it reads. indices: int32 or int64. */
bool indices_inside(const kit_tensor *indices, int64_t first, int64_t count, int64_t dim);
/* Fails unless every index is in [-dim, dim). Runs on the calling thread before any element is read, so that the
 * message can name the first invalid index. indices: int32 or int64. */
inlay_status indices_check(const kit_call *call, const kit_tensor *indices, int64_t dim);
#endif
