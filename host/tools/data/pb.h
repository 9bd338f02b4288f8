/* data/pb.h - writes values that numpy has no format for, as ONNX messages. */
#ifndef DATA_PB_H
#define DATA_PB_H
#include "base/memory.h"
#include "inlay/inlay.h"

/* A map as MapProto: the values are a sequence of tensors [1]. */
INLAY_NODISCARD inlay_status pb_save_map(const char *path, const inlay_value *map, inlay_diag *diag);
/* A tensor as SparseTensorProto, its indices [n, rank]. */
INLAY_NODISCARD inlay_status pb_save_sparse(const char *path, const inlay_value *tensor, inlay_diag *diag);
#endif
