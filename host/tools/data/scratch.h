/* data/scratch.h - a folder in which models are written and tested: in the folder of the output, or in the folder for
 * temporary files if the output is not a regular file. Good models are moved to the output, see base/output.h. */
#ifndef DATA_SCRATCH_H
#define DATA_SCRATCH_H
#include "inlay/inlay.h"
#include "model/model.h"

enum { SCRATCH_BYTES = 3840 };

struct scratch {
    char dir[SCRATCH_BYTES]; /* "" = not created */
    const char *output;      /* path of the resulting model */
    const char *external;    /* name of its file of tensors, or NULL */
};

/* INLAY_IO_ERROR: `output` cannot be written. */
INLAY_NODISCARD inlay_status scratch_make(const char *output, const char *external, struct scratch *out,
                                          inlay_diag *diag);
/* A folder among the temporary files. INLAY_IO_ERROR: there is none; set TMPDIR. */
INLAY_NODISCARD inlay_status scratch_make_temporary(struct scratch *out, inlay_diag *diag);
/* Removes a folder and its contents. */
void scratch_remove_folder(const char *path);
/* Removes the folder and its contents; {0} is a no-op. */
void scratch_remove(struct scratch *scratch);
/* Saves the model as "DIR/NAME/model.onnx", and creates the folder; path is [PATH_MAX]. mapped: the tensors are stored
 * in a separate file even if scratch->external is NULL, so that they can be mapped, and inferred shapes are stored. */
INLAY_NODISCARD inlay_status scratch_save(const struct scratch *scratch, const char *name, const graph_model *model,
                                          bool mapped, char *path, inlay_diag *diag);
/* Moves a model that scratch_save() wrote, without `mapped`, to the output; *out_bytes is its size. */
INLAY_NODISCARD inlay_status scratch_publish(const struct scratch *scratch, const char *path, uint64_t *out_bytes,
                                             inlay_diag *diag);
#endif
