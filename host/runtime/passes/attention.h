/* passes/attention.h - what the scores of an attention go through before Softmax (attention_masks.c), for the pass
 * that puts them together (attention.c). */
#ifndef PASSES_ATTENTION_H
#define PASSES_ATTENTION_H
#include "passes/rewrite.h"

enum { ATTENTION_MASKS = 4 };

/* One thing that happens to scores. */
typedef struct attention_mask {
    uint32_t value;           /* what is added; INLAY_NONE: choice decides */
    const graph_node *choice; /* Where(seen, scores, c) or Where(hidden, c, scores) */
    uint32_t hidden;          /* its input that is the c, 1 or 2 */
    bool whole;               /* it has as many columns as there are keys, for sure; otherwise maybe one */
    bool windows;             /* it is for scores of rank 5 */
    inlay_dim groups;         /* windows: the first size of those scores ... */
    int64_t window_count;     /* ... and the second */
} attention_mask;

typedef struct attention_masks {
    attention_mask list[ATTENTION_MASKS];
    uint32_t count;
    bool rows_open; /* some mask may have more rows than there are queries, if that is one */
} attention_masks;

/* Are the dims the same for sure? */
bool attention_same_dim(const inlay_dim *a, const inlay_dim *b);
/* v without constant factors; these multiply *scale. */
uint32_t attention_unscaled(const struct rewrite *rewrite, uint32_t v, double *scale);
/* What v, the input of Softmax, [.., queries, keys] of rank 3 or 4, is before masks: a product of matrices, times
 * constants. INLAY_NONE: something else. */
uint32_t attention_scores(struct rewrite *rewrite, uint32_t v, attention_masks *masks);
/* Are they just a constant triangle, which hides from each query the keys behind its own place? */
bool attention_is_causal(struct rewrite *rewrite, const attention_masks *masks);
/* All masks for scores of q and v [batch, heads, length, size], or the same of rank 3, as ai.inlay's Attention has
 * them: *out_hidden says which scores are replaced by 0, and *out_bias what is added then. INLAY_NONE: there is none.
 */
INLAY_NODISCARD inlay_status attention_join_masks(struct rewrite *rewrite, const attention_masks *masks, uint32_t q,
                                                  uint32_t v, uint32_t *out_bias, uint32_t *out_hidden);
#endif
