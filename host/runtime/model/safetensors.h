/* model/safetensors.h - files of named tensors in the safetensors format of Hugging Face.
 *
 * A file is the size of its header in 8 bytes, little-endian, the header, and the data. The header is a JSON object:
 * for each tensor its name with dtype, shape and data_offsets, the range of its bytes in the data. */
#ifndef MODEL_SAFETENSORS_H
#define MODEL_SAFETENSORS_H
#include "graph/graph.h"

struct safetensor {
    const char *name;
    const char *type;       /* as the file states it: "F32" */
    inlay_tensor_view view; /* dtype UNDEFINED: another type than F32, F16 and BF16; data may be misaligned */
};

struct safetensors {
    struct safetensor *tensors; /* [count] in the order of the header */
    uint32_t count;
    bool is_adapter; /* an adapter in another format, which states its scale and has rows in the order of its models */
    double alpha;    /* of it; 0: the scale is 1 */
};

/* Maps the file, whose mapping the model then owns; names and dims are in the model's arena. A file in a format of
 * model/format.h must be an adapter. Messages begin with the path. INLAY_INVALID_ARGUMENT: the file is damaged. */
INLAY_NODISCARD inlay_status safetensors_open(graph_model *model, const char *path, struct safetensors *out,
                                              inlay_diag *diag);
/* The tensor of that name, or NULL. */
const struct safetensor *safetensors_find(const struct safetensors *file, const char *name);
#endif
