/* indices.h - indices that a model gives as a tensor. */
#ifndef INDICES_H
#define INDICES_H
#include "inlay/kit.h"

/* Every index must lie in [-dim, dim): checked before anything is read, on the calling thread, so that the sentence can
 * name the first bad one. indices: int32 or int64. */
inlay_status indices_check(const kit_call *call, const kit_tensor *indices, int64_t dim);
#endif
