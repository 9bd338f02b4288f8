/* indices.h - indices that a model gives as a tensor. */
#ifndef INDICES_H
#define INDICES_H
#include "instance.h"
#include "inlay/kit.h"

/* Do `count` indices, from the first on, lie in [-dim, dim)? Of a loop's part, where each reads but its own. indices:
 * int32 or int64. */
bool indices_inside(const kit_tensor *indices, int64_t first, int64_t count, int64_t dim);
/* Every index must lie in [-dim, dim): checked before anything is read, on the calling thread, so that the sentence can
 * name the first bad one. indices: int32 or int64. */
inlay_status indices_check(const kit_call *call, const kit_tensor *indices, int64_t dim);
#endif
