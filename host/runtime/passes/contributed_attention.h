/* passes/contributed_attention.h - what the decompositions of attention operators share. */
#ifndef PASSES_CONTRIBUTED_ATTENTION_H
#define PASSES_CONTRIBUTED_ATTENTION_H
#include "passes/contributed.h"

/* Operands common to all attentions: [batch, heads, rows, size] each; keys and values include the past. */
typedef struct attention_operands {
    uint32_t q, k, v;
    uint32_t bias; /* added to the scores (broadcast), or INLAY_NONE */
    uint32_t mask; /* bool (broadcast): true where a key is visible, or INLAY_NONE */
    uint32_t sink; /* [1, heads, 1, 1]: one more score in each row, or INLAY_NONE */
    double scale;  /* 0: 1 / sqrt(size) */
    double softcap;
    double hidden; /* score of a hidden key */
} attention_operands;

/* An int64 of rank 0. */
uint32_t emit_scalar(subgraph_builder *builder, int64_t value);
/* Size of axis d of value, as int64 of rank 0. */
uint32_t emit_size(subgraph_builder *builder, uint32_t value, int64_t d);
/* 0, 1, .. end - 1. */
uint32_t emit_range(subgraph_builder *builder, uint32_t end);
uint32_t emit_reshape(subgraph_builder *builder, uint32_t value, const int64_t *dims, uint32_t count);
#define RESHAPED(b, v, ...)                                                                                            \
    emit_reshape(b, v, (const int64_t[]){ __VA_ARGS__ },                                                               \
                 (uint32_t)(sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))
uint32_t emit_concat(subgraph_builder *builder, uint32_t first, uint32_t second, int64_t axis);
extern const int64_t by_head[4]; /* transposes [batch, rows, heads, size] and back */
/* [batch, rows, heads * size] to [batch, heads, rows, size]; values of rank 4 have that layout already. */
uint32_t split_heads(subgraph_builder *builder, uint32_t value, int64_t count);
/* [batch, heads, rows, size] to [batch, rows, heads * size]. */
uint32_t join_heads(subgraph_builder *builder, uint32_t value);
/* The products, Softmax and what changes the scores between them: [batch, heads, rows, size]. */
uint32_t emit_attention(subgraph_builder *builder, const attention_operands *operands);
/* Returns true if emit_hiding_attention() may be used for queries, keys and values of that type. */
bool hides_in_attention(const subgraph_builder *builder, inlay_dtype dtype);
/* The mask and the bias as numbers that are added to the scores; `mask` is given. */
uint32_t emit_added_mask(subgraph_builder *builder, const attention_operands *operands);
/* Sets scale and softcap of the Attention inserted last. */
void emit_score_attributes(subgraph_builder *builder, const attention_operands *operands);
/* emit_attention() as one node Attention-23, without a sink; `mask` is given. Keys may have fewer heads than queries.
 * Hidden keys take no part, whatever they and their values hold. */
uint32_t emit_hiding_attention(subgraph_builder *builder, const attention_operands *operands);
/* Replaces values [batch, heads, keys, size] that are NaN or infinity by 0 where written (broadcast) is false: nothing
 * need have written them, and a weight of 0 times NaN is NaN. */
uint32_t emit_written(subgraph_builder *builder, uint32_t values, uint32_t written);
/* The lowest finite number of a float type, as the score of a hidden key. */
double lowest_score(inlay_dtype dtype);
/* Columns [from, to) of the last axis. */
uint32_t slice_columns(subgraph_builder *builder, uint32_t value, int64_t from, int64_t to);
/* The rank of value, or `otherwise` if it is unknown. */
uint32_t rank_or(const subgraph_builder *builder, uint32_t value, uint32_t otherwise);
/* RotaryEmbedding; size, count: its attributes rotary_embedding_dim and num_heads, 0 = not set. */
uint32_t emit_rotary(subgraph_builder *builder, uint32_t input, uint32_t cosines, uint32_t sines, uint32_t positions,
                     bool interleaved, int64_t size, int64_t count);
#endif
