/* serve/padding.h - requests that are made longer along a second open axis (tokens of a text, say), so that those of
 * different lengths can be joined, and the model meets few shapes.
 *
 * config.yaml asks for it by `buckets`: a request is padded to the smallest of these lengths that holds it, one that is
 * longer than all of them stays as it is. Inputs are padded with 0 (or what `pad` names), outputs that have the axis
 * are cut back. This is right for models that leave out what a mask excludes: whether a model does is tried when it is
 * loaded, and one that does not is refused. */
#ifndef SERVE_PADDING_H
#define SERVE_PADDING_H
#include "inlay/inlay.h"
#include "serve/infer.h"

struct model;
struct job;
struct instance;

enum { PADDING_SIZES = 16, PADDING_VALUES = 16, PADDING_NAME = 128 };

/* What config.yaml says. */
typedef struct padding_config {
    uint64_t sizes[PADDING_SIZES]; /* [size_count] ascending; none: nothing is padded */
    uint32_t size_count, value_count;
    struct {
        char input[PADDING_NAME];
        int64_t value;
    } values[PADDING_VALUES]; /* [value_count] */
} padding_config;

/* The same for the inputs and outputs of a model. */
struct padding {
    const char *axis;                   /* its name in the model; NULL = nothing is padded */
    uint32_t *input_axes, *output_axes; /* [input_count], [output_count] where it is; 0 = nowhere */
    int64_t *values;                    /* [input_count] */
};

/* "16,32,64", and "NAME=NUMBER". */
INLAY_NODISCARD inlay_status padding_set_sizes(padding_config *config, const char *text, inlay_diag *diag);
INLAY_NODISCARD inlay_status padding_set_value(padding_config *config, const char *text, inlay_diag *diag);

/* Finds the axis. INLAY_UNSUPPORTED: the model has none that could be padded. */
INLAY_NODISCARD inlay_status padding_init(struct model *model, inlay_diag *diag);
void padding_deinit(struct padding *padding);
/* Runs the model as it is and padded: INLAY_UNSUPPORTED if its outputs differ. */
INLAY_NODISCARD inlay_status padding_check(const struct model *model, const struct instance *instance,
                                           inlay_diag *diag);

/* Sets the job's length, and to what it is padded; its request fits the model. */
void padding_choose(struct job *job);
/* Writes the tensor with its axis made so long, 0 = as long as it is; returns the bytes written. */
uint64_t padding_write(const struct padding *padding, const infer_tensor *tensor, uint64_t length, char *out);
/* Cuts the axis of the output back to so many, into *scratch (of *scratch_bytes, grown as needed). false: no memory. */
bool padding_cut(infer_output *output, uint32_t axis, uint64_t length, void **scratch, uint64_t *scratch_bytes);
#endif
