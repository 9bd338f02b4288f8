/* quantize/times.h - what each layer of a model takes, as a profile of its kernels tells. */
#ifndef QUANTIZE_TIMES_H
#define QUANTIZE_TIMES_H
#include "quantize/judge.h"

/* Runs the subject on the first sample. out is [count]: nanoseconds in the kernels and regions that have the name of
 * the layer's node, 0 where none has. *out_run_ns: of the whole run. The context is as it was afterwards. */
INLAY_NODISCARD inlay_status times_of_layers(const struct subject *subject, const struct samples *set,
                                             const char *const *names, uint32_t count, double *out, double *out_run_ns,
                                             inlay_diag *diag);
#endif
