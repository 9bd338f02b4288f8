/* serve/model/files.h - models that read a file: a picture or a sound.
 *
 * `inlay pipe` makes them: their only input is the bytes of one file, UINT8 with the axis `file_bytes`. Clients see a
 * list of files instead, BYTES [-1], and outputs with one row for each file. A run of the server runs the model once
 * for each file, so that files of a request may have any sizes. The outputs of these runs are the rows of one tensor:
 * where their size is known, the model writes into the row itself. */
#ifndef SERVE_FILES_H
#define SERVE_FILES_H
#include "serve/model/model.h"

enum { FILES_MAX = 256 }; /* of a request */

/* How clients see an output: with one row for each file. */
struct file_output {
    int64_t dims[INLAY_MAX_RANK];
    const char *dim_names[INLAY_MAX_RANK];
    uint64_t row_bytes; /* 0: not known, or texts */
};

/* The outputs of the last run, if it had several files. */
struct file_rows {
    inlay_value **values; /* [output_count] owned; NULL: that of the context */
    void **memory;        /* [output_count] of the values with known sizes; owned */
    uint64_t *bytes;      /* [output_count] capacity of each */
};

/* Replaces the descriptions of the inputs and outputs of a model that reads a file by those that clients see, and sets
 * model->file_outputs. No effect on other models. */
INLAY_NODISCARD inlay_status files_describe(struct model *model, inlay_diag *diag);
/* Whether an input, of a model or of an ensemble, is a list of files. */
bool files_is_list(const inlay_io_info *io);
/* Accepts every form in which a client may send files: BYTES of the shape [n] or [n,1], in JSON as base64; or UINT8,
 * the bytes of one. */
INLAY_NODISCARD inlay_status files_take(infer_tensor *tensor, inlay_diag *diag);
/* A small picture, for warming up. */
extern const inlay_str files_example;

INLAY_NODISCARD inlay_status files_init(const struct model *model, struct file_rows *rows, inlay_diag *diag);
void files_deinit(const struct model *model, struct file_rows *rows);
/* Runs the model for each of the files, a STRING tensor. A failure names the input, as `name`, and the file. Adds the
 * memory that it allocates to *grown. */
INLAY_NODISCARD inlay_status files_run(const struct model *model, inlay_context *context, struct file_rows *rows,
                                       const char *name, const inlay_value *files, const inlay_run_options *run,
                                       uint64_t *grown, inlay_diag *diag);
/* Output k of the last run, borrowed; NULL: there is none. */
inlay_value *files_output(inlay_context *context, const struct file_rows *rows, uint32_t k);
#endif
