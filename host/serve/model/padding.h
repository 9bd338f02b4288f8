/* serve/model/padding.h - pads requests along a second symbolic axis (for example the tokens of a text), so that
 * requests of different lengths can be batched and the model sees few shapes.
 *
 * `buckets` in config.yaml enables it: a request is padded to the smallest of these lengths that holds it; longer
 * requests are unchanged. Inputs are padded with 0 (or the values of `pad`), outputs with that axis are trimmed. The
 * model must ignore the elements that its mask excludes: loading checks this and refuses other models. */
#ifndef SERVE_PADDING_H
#define SERVE_PADDING_H
#include "inlay/inlay.h"
#include "serve/request/infer.h"

struct model;
struct job;
struct instance;

enum { PADDING_SIZES = 16, PADDING_VALUES = 16, PADDING_NAME = 128 };

/* The settings of config.yaml. */
typedef struct padding_config {
    uint64_t sizes[PADDING_SIZES]; /* [size_count] ascending; none: no padding */
    uint32_t size_count, value_count;
    struct {
        char input[PADDING_NAME];
        int64_t value;
    } values[PADDING_VALUES]; /* [value_count] */
} padding_config;

/* The settings resolved for the inputs and outputs of a model. */
struct padding {
    const char *axis;                   /* its name in the model; NULL = no padding */
    uint32_t *input_axes, *output_axes; /* [input_count], [output_count] index of the axis; 0 = none */
    int64_t *values;                    /* [input_count] */
};

/* Parse "16,32,64" and "NAME=NUMBER". */
INLAY_NODISCARD inlay_status padding_set_sizes(padding_config *config, const char *text, inlay_diag *diag);
INLAY_NODISCARD inlay_status padding_set_value(padding_config *config, const char *text, inlay_diag *diag);

/* Finds the axis. INLAY_UNSUPPORTED: the model has no axis that can be padded. */
INLAY_NODISCARD inlay_status padding_init(struct model *model, inlay_diag *diag);
void padding_deinit(struct padding *padding);
/* Runs the model with and without padding: INLAY_UNSUPPORTED if its outputs differ. */
INLAY_NODISCARD inlay_status padding_check(const struct model *model, struct instance *instance, inlay_diag *diag);

/* Sets the job's length and padded length; its request has passed model_check(). */
void padding_choose(struct job *job);
/* Writes the tensor with its axis padded to `length`, 0 = unchanged; returns the number of bytes written. */
uint64_t padding_write(const struct padding *padding, const infer_tensor *tensor, uint64_t length, char *out);
/* Trims the axis of the output to `length`, in *scratch (of *scratch_bytes, grown as needed). false: out of memory. */
bool padding_trim(infer_output *output, uint32_t axis, uint64_t length, void **scratch, uint64_t *scratch_bytes);
#endif
