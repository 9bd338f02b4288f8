/* passes/attention.h - the masks that are applied to the scores of an attention before Softmax. attention_masks.c finds
 * them, the pass in attention.c fuses them. */
#ifndef PASSES_ATTENTION_H
#define PASSES_ATTENTION_H
#include "passes/rewrite.h"

enum { ATTENTION_MASKS = 4 };

/* One mask that is applied to the scores. */
typedef struct attention_mask {
    uint32_t value;           /* the value that is added; INLAY_NONE: `choice` selects scores */
    const graph_node *choice; /* Where(visible, scores, constant) or Where(hidden, constant, scores) */
    uint32_t hidden;          /* input index of that constant in `choice`: 1 or 2 */
    bool whole;               /* the mask provably has one column for each key; otherwise it may broadcast one column */
    bool windows;             /* the mask applies to scores of rank 5 */
    inlay_dim groups;         /* windows: first dimension of the scores of rank 5 */
    int64_t window_count;     /* windows: second dimension of the scores of rank 5 */
} attention_mask;

typedef struct attention_masks {
    attention_mask list[ATTENTION_MASKS];
    uint32_t count;
    uint32_t stopped; /* where the search ended that found no scores */
    bool rows_open;   /* a mask may have more rows than there are queries (possible with one query only) */
} attention_masks;

/* Returns `value` with constant factors removed; *scale is multiplied by them. */
uint32_t attention_unscaled(const struct rewrite *rewrite, uint32_t value, double *scale);
/* Strips the masks from `value`, the input of Softmax: [.., queries, keys] of rank 3 or 4. Returns the unmasked scores,
 * a matrix multiplication times constants, or INLAY_NONE if the pattern does not match. */
uint32_t attention_scores(struct rewrite *rewrite, uint32_t value, attention_masks *masks);
/* Returns true if the only mask is a constant causal triangle: each query sees no key after its own position. */
bool attention_is_causal(struct rewrite *rewrite, const attention_masks *masks);
/* Combines all masks into the two inputs of ai.inlay's Attention, for scores of q and v [batch, heads, length, size] or
 * the same with rank 3. Scores selected by *out_hidden are replaced by 0, then *out_bias is added. Either is INLAY_NONE
 * if it is not needed. */
INLAY_NODISCARD inlay_status attention_join_masks(struct rewrite *rewrite, const attention_masks *masks, uint32_t q,
                                                  uint32_t v, uint32_t *out_bias, uint32_t *out_hidden);
#endif
