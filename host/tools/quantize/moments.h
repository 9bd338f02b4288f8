/* quantize/moments.h - second moments of what products read, by runs of the float model; for weights of 4 bits. */
#ifndef QUANTIZE_MOMENTS_H
#define QUANTIZE_MOMENTS_H
#include "quantize/judge.h"
#include "quantize/narrow.h"

enum { MOMENTS_MOST_DEPTH = 8192 }; /* wider products get none: the matrix would take a quarter of a gigabyte */

struct moments {
    struct arena arena;
    weight_inputs *layers; /* [list->count]; empty where a layer has none */
};

/* Runs the model at path, of which list has the layers, on the samples. Inputs are taken a few at a time, so that what
 * is kept stays below 1 GiB; each time runs all samples. Blocks that matter most are rounded first. End *out with
 * moments_end(), also after a failure. */
INLAY_NODISCARD inlay_status moments_gather(const char *path, const inlay_options *options, const struct samples *set,
                                            const layer_list *list, uint32_t block,
                                            int (*progress)(void *user, double fraction, const char *what), void *user,
                                            struct moments *out, inlay_diag *diag);
void moments_end(struct moments *moments);

/* The upper triangular u with inverse(h) = u' u, of a symmetric positive h of which the upper triangle counts; [n, n].
 * h is used up. False: h is not positive. */
bool moments_factor(float *h, int64_t n, float *u);
#endif
