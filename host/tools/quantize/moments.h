/* quantize/moments.h - gathers second moments of the inputs of matrix multiplications by running the float model; used
 * for 4-bit weights. */
#ifndef QUANTIZE_MOMENTS_H
#define QUANTIZE_MOMENTS_H
#include "quantize/evaluate.h"
#include "quantize/low_bit.h"

enum { MOMENTS_MOST_DEPTH = 8192 }; /* no moments for larger depths: the matrix would take a quarter of a gigabyte */

struct moments {
    struct arena arena;
    weight_inputs *layers; /* [list->count]; {0} for layers without moments */
};

/* Runs the model at path, whose layers list holds, on the samples. Inputs are processed a few at a time, so that memory
 * stays below 1 GiB; each group runs all samples. Blocks of large inputs are rounded first. End *out with
 * moments_end(), also after a failure. */
INLAY_NODISCARD inlay_status moments_gather(const char *path, const inlay_options *options, const struct samples *set,
                                            const layer_list *list, uint32_t block,
                                            int (*progress)(void *user, double fraction, const char *what), void *user,
                                            struct moments *out, inlay_diag *diag);
void moments_end(struct moments *moments);

/* Computes the upper triangular u with inverse(h) = u' u for a symmetric positive definite h, [n, n]. Only the upper
 * triangle of h is read. h is overwritten. False: h is not positive definite. */
bool moments_factor(float *h, int64_t n, float *u);
#endif
