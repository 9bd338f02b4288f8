/* data/samples.h - inputs to run models on, one sample after another, from wherever the caller has them.
 *
 * Each sample is loaded when it is needed, so memory does not grow with their number. */
#ifndef DATA_SAMPLES_H
#define DATA_SAMPLES_H
#include "inlay/inlay.h"

struct samples {
    uint32_t count;
    const inlay_session *of; /* whose inputs the samples are for, by index */
    /* Makes sample i: values[k] is for input k of `of`, NULL where it is left to its default. values come in as NULLs;
     * the caller releases them, also after a failure. */
    inlay_status (*load)(void *ctx, uint32_t i, inlay_value **values, inlay_diag *diag);
    void *ctx;
    const uint32_t *cancel; /* see inlay_run_options.cancel; may be NULL */
};

/* Values of one sample: [inlay_session_input_count(samples->of)]. NULL and a diag when it fails. */
INLAY_NODISCARD inlay_status samples_load(const struct samples *samples, uint32_t i, inlay_value ***out_values,
                                          inlay_diag *diag);
void samples_release(const struct samples *samples, inlay_value **values); /* NULL is a no-op */

/* Runs a context of `session` on the values. Inputs are found by name; a model that has other names, but as many
 * inputs, gets them in order. */
INLAY_NODISCARD inlay_status samples_run(const struct samples *samples, inlay_value *const *values,
                                         const inlay_session *session, inlay_context *context, inlay_diag *diag);
/* Can `session` be run on the samples at all? The sentence names an input that it has not. */
INLAY_NODISCARD inlay_status samples_fit(const struct samples *samples, const inlay_session *session, inlay_diag *diag);
#endif
