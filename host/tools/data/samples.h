/* data/samples.h - inputs to run models on, one sample at a time, from any source.
 *
 * Each sample is loaded when it is needed, so memory does not grow with their number. */
#ifndef DATA_SAMPLES_H
#define DATA_SAMPLES_H
#include "inlay/inlay.h"

struct samples {
    uint32_t count;
    const inlay_session *of; /* the session that the samples' inputs belong to, by index */
    /* Makes sample i: values[k] is for input k of `of`, NULL if the input uses its default. All values are NULL at
     * entry; the caller releases them, also after a failure. */
    inlay_status (*load)(void *ctx, uint32_t i, inlay_value **values, inlay_diag *diag);
    /* The file of the sample that was loaded last, for messages; NULL: none. May itself be NULL. */
    const char *(*path_of_loaded)(void *ctx);
    void *ctx;
    const uint32_t *cancel; /* see inlay_run_options.cancel; may be NULL */
};

/* Loads one sample: [inlay_session_input_count(samples->of)] values; NULL after a failure. */
INLAY_NODISCARD inlay_status samples_load(const struct samples *samples, uint32_t i, inlay_value ***out_values,
                                          inlay_diag *diag);
void samples_release(const struct samples *samples, inlay_value **values); /* NULL is a no-op */

/* Runs a context of `session` on the values. Inputs are matched by name; a model with entirely different names gets
 * them by index. */
INLAY_NODISCARD inlay_status samples_run(const struct samples *samples, inlay_value *const *values,
                                         const inlay_session *session, inlay_context *context, inlay_diag *diag);
/* Whether `session` can run on the samples; the message names a missing input. */
INLAY_NODISCARD inlay_status samples_fit(const struct samples *samples, const inlay_session *session, inlay_diag *diag);
#endif
