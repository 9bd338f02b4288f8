/* attend.h - attention on built-in kernels, prepared for its sizes (attend.c). The products of queries and keys, and of
 * probabilities and values, are those of floats (sgemm.h) or of their terms by matrix tiles (attend_terms.c). */
#ifndef CPU_ATTEND_H
#define CPU_ATTEND_H
#include "cpu/attention/attention.h"
#include "cpu/attention/cache_loops.h"
#include "cpu/matrix/terms.h"

/* Elements from one batch, head and row to the next. The elements of a row are contiguous. */
struct strides {
    int64_t batch, head, row;
};

/* Keys or values in 8 or 4 bits, whose strides count bytes. */
struct coded {
    const cache_loops *loops; /* NULL: floats */
    cache_rows rows;          /* data is not set */
    cpu_scales scales;
    int64_t words; /* floats of a query or result, in the order in which codes are stored */
};

struct attend {
    cpu_native native;
    const sgemm_kernel *kernel;
    const terms_set *key_terms, *value_terms; /* products with keys or values by terms; NULL: of floats */
    int64_t batch, heads, shared, queries, keys, size, value_size; /* shared: query heads per head of keys */
    struct strides q, k, v, y;
    struct coded keys_coded, values_coded;
    cpu_mask mask, hidden, sink;
    float query_scale; /* of the queries: a copy of a block is scaled, unless this is 1 and the keys are floats */
    float scale;       /* of the scores; if they are capped, of their tanh() */
    bool is_capped;    /* the scores become their tanh() */
    sgemm_blank blank;
    int64_t reach; /* number of keys that the mask has columns for */
    bool causal;
    bool mask_is_causal; /* the mask also hides later keys: they may be skipped if operands are within operand_limit */
    float operand_limit; /* mask_is_causal: largest magnitude of queries and keys for which skipping is exact */
    bool grouped;        /* the queries are those of several heads that share keys and values */
    bool uses_dots;      /* few queries: scores are computed from unpacked keys */
    int64_t blocks;      /* number of blocks of queries */
    int64_t score_row;   /* elements between rows of scores */
    int64_t rows;        /* rows of the largest block; with terms, of all but the last one */
    bool strict;         /* sums in short chains */
    /* Scratch of one worker: terms, scores, a panel of keys, factors, scaled queries, results, values without those of
     * hidden keys. */
    int64_t worker_floats;
    uint32_t workers;
};

struct call {
    const struct attend *attend;
    const float *q, *mask, *key_scales, *value_scales, *sinks;
    const void *k, *v; /* floats or codes */
    const uint8_t *hidden;
    float *scratch, *output;
};

/* Is a product computed by terms? */
static inline bool attend_has_terms(const struct attend *attend)
{
    return attend->key_terms != NULL || attend->value_terms != NULL;
}
/* Decides which products are computed by terms; set: NULL for none. tile_pace: cpu_tile_pace(), or 1. */
void attend_choose(struct attend *attend, const terms_set *set, double tile_pace);
/* Divides the queries into blocks and sets the sizes of scratch memory. */
void attend_plan(struct attend *attend, uint32_t threads, bool reproducible);
/* Computes blocks [begin, end) of all heads. user: a struct call. */
inlay_status attend_range(void *user, int64_t begin, int64_t end, uint32_t worker);

/* Hidden keys (attend_hidden.c). True if the operator may have some; they take no part. */
bool attend_may_hide(const struct attend *attend);
/* Scratch memory of a worker. */
int64_t attend_hidden_floats(const struct attend *attend);
/* True if an element of `count` rows of `size` elements, `row` apart, is NaN. */
bool attend_has_nan(const float *rows, int64_t row, int64_t count, int64_t size);
/* Sets the scores of the hidden ones of `visible` keys to 0. */
void attend_clear_hidden(const struct call *call, int64_t batch, int64_t head, int64_t query, int64_t visible,
                         float *scores);
/* Runs the job `values`, whose a, c and posts are those of one query, with zeros for hidden values. room:
 * attend_hidden_floats(). */
void attend_visible_values(const struct call *call, int64_t batch, int64_t head, int64_t query, const sgemm_job *values,
                           float *room);
/* The codes of values in `room`, with scales of 0 for hidden rows. */
cache_rows attend_visible_codes(const struct call *call, int64_t batch, int64_t head, int64_t query, int64_t visible,
                                const cache_rows *codes, float *room);

/* The terms of the keys and values of one head, in the scratch memory of a worker. */
struct attend_terms {
    int64_t head;              /* counted over all batches; -1: none */
    bool keys_fit, values_fit; /* false: not by terms, or without terms */
    uint32_t *keys, *values, *room;
    float *results; /* of a block, in rows of terms_panels(value_size) panels */
};
int64_t attend_terms_floats(const struct attend *attend);
void attend_terms_at(const struct attend *attend, float *scratch, struct attend_terms *out);
/* Makes the terms of head `head`, if it has not been the last one. panel: room for size * SGEMM_WIDTH floats. */
void attend_terms_pack(const struct attend *attend, int64_t head, const float *keys, const float *values, float *panel,
                       struct attend_terms *terms);
/* The two products of a block. Bit i of the result: the scores of strip i are not computed, because a query is out of
 * range. The job's only operation multiplies rows by the factors of the softmax. */
uint32_t attend_terms_scores(const struct attend *attend, const struct attend_terms *terms, const float *q,
                             int64_t q_row, int64_t rows, int64_t visible, float *scores);
void attend_terms_values(const struct attend *attend, const struct attend_terms *terms, const sgemm_job *job);
#endif
