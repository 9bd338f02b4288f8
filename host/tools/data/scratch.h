/* data/scratch.h - a folder in which models are made and tried: beside the output if that is a regular file; what
 * is good moves out of it, as base/output.h says. */
#ifndef DATA_SCRATCH_H
#define DATA_SCRATCH_H
#include "inlay/inlay.h"
#include "model/model.h"

enum { SCRATCH_BYTES = 3840 };

struct scratch {
    char dir[SCRATCH_BYTES]; /* "" = not made */
    const char *output;      /* where the model is to go */
    const char *external;    /* its file of tensors, or NULL */
};

/* INLAY_IO_ERROR: `output` cannot be written. */
INLAY_NODISCARD inlay_status scratch_make(const char *output, const char *external, struct scratch *out,
                                          inlay_diag *diag);
/* Removes a folder and what is in it. */
void scratch_remove_folder(const char *path);
/* Removes the folder and what is in it; {0} is a no-op. */
void scratch_remove(struct scratch *scratch);
/* "DIR/NAME/", made if it is not there, with the model in it as model.onnx; path is [PATH_MAX]. inside: tensors go into
 * a file of their own even where the caller named none, so that they are mapped. */
INLAY_NODISCARD inlay_status scratch_save(const struct scratch *scratch, const char *name, const graph_model *model,
                                          bool inside, char *path, inlay_diag *diag);
/* Moves a model that scratch_save() wrote, without `inside`, to the output; *out_bytes is how large it is. */
INLAY_NODISCARD inlay_status scratch_publish(const struct scratch *scratch, const char *path, uint64_t *out_bytes,
                                             inlay_diag *diag);
#endif
