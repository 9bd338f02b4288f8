/* quantize/times.h - the time of each layer of a model, from a profile of its kernels. */
#ifndef QUANTIZE_TIMES_H
#define QUANTIZE_TIMES_H
#include "quantize/evaluate.h"

/* Runs the subject on the first sample. out is [count]: nanoseconds in the kernels and regions named after the layer's
 * node, 0 if there is none. *out_run_ns: nanoseconds of the whole run. Profiling is switched off again afterwards. */
INLAY_NODISCARD inlay_status layer_times(const struct subject *subject, const struct samples *set,
                                         const char *const *names, uint32_t count, double *out, double *out_run_ns,
                                         inlay_diag *diag);
#endif
