/* Products of attention by terms (terms.h): which pay, and the terms of a head. Keys and values are turned into terms
 * once for all blocks of queries that a worker computes in a row; rows of queries and probabilities, for each block. */
#include "cpu/attention/attend.h"
#include "inlay/check.h"
#include "simd/optional.h"
#include <string.h>

/* Programs of `inlay bundle` omit these. */
OPTIONAL_WITH(attend_choose, "cpu_attention+cpu_product");
OPTIONAL_WITH(attend_terms_pack, "cpu_attention+cpu_product");
OPTIONAL_WITH(attend_terms_scores, "cpu_attention+cpu_product");
OPTIONAL_WITH(attend_terms_values, "cpu_attention+cpu_product");

#define FLOPS_PER_NS 210.0     /* of products of floats */
#define SPLIT_PER_NS 5.0       /* elements of values, whose terms are made */
#define TURN_PER_NS 3.5        /* elements of keys, which are turned before */
enum { PACK_WORDS = 1 << 20 }; /* of a head: they are read from the second-level cache */

/* True if a product of all queries with `columns` columns, over `depth` terms of a sum, pays. b_ns: time to make the
 * terms of B, whose head several heads of queries share. */
static bool pays(const struct attend *attend, int64_t columns, int64_t depth, double b_ns, double tile_pace)
{
    const double part = attend->causal ? 0.5 : 1; /* of the keys are visible */
    const double floats = 2.0 * (double)attend->queries * (double)columns * (double)depth / FLOPS_PER_NS;

    return attend->queries >= TERMS_ROWS &&
           part * terms_ns(attend->queries, columns, depth, TERMS, true, tile_pace) + b_ns / (double)attend->shared <
               part * floats;
}

void attend_choose(struct attend *attend, const terms_set *set, double tile_pace)
{
    const double keys = (double)(attend->reach * attend->size), values = (double)(attend->reach * attend->value_size);

    attend->key_terms = attend->value_terms = NULL;
    if (set == NULL || attend->keys_coded.loops != NULL || attend->values_coded.loops != NULL || attend->reach == 0 ||
        attend->size == 0 || attend->value_size == 0 ||
        terms_b_words(attend->size, attend->reach) + terms_b_words(attend->reach, attend->value_size) > PACK_WORDS)
        return;
    if (pays(attend, attend->reach, attend->size, keys / TURN_PER_NS, tile_pace))
        attend->key_terms = set;
    if (pays(attend, attend->value_size, attend->reach, values / SPLIT_PER_NS, tile_pace))
        attend->value_terms = set;
}

/* The parts of a worker's memory in words: those of attend_terms, in order. */
static void measure_parts(const struct attend *attend, int64_t out[4])
{
    const int64_t of_queries = attend->key_terms != NULL ? terms_room_words(attend->rows, attend->size) : 0,
                  of_scores = attend->value_terms != NULL ? terms_room_words(attend->rows, attend->reach) : 0;

    out[0] = attend->key_terms != NULL ? terms_b_words(attend->size, attend->reach) : 0;
    out[1] = attend->value_terms != NULL ? terms_b_words(attend->reach, attend->value_size) : 0;
    out[2] = of_queries > of_scores ? of_queries : of_scores;
    out[3] = attend->value_terms != NULL ? attend->rows * terms_panels(attend->value_size) * TERMS_WIDTH : 0;
}

int64_t attend_terms_floats(const struct attend *attend)
{
    int64_t parts[4];

    measure_parts(attend, parts);
    return parts[0] + parts[1] + parts[2] + parts[3];
}

void attend_terms_at(const struct attend *attend, float *scratch, struct attend_terms *out)
{
    int64_t parts[4];

    measure_parts(attend, parts);
    *out = (struct attend_terms){ .head = -1, .keys = (uint32_t *)(void *)scratch };
    out->values = out->keys + parts[0];
    out->room = out->values + parts[1];
    out->results = scratch + parts[0] + parts[1] + parts[2];
}

void attend_terms_pack(const struct attend *attend, int64_t head, const float *keys, const float *values, float *panel,
                       struct attend_terms *terms)
{
    if (head == terms->head)
        return;
    terms->head = head;
    terms->keys_fit = attend->key_terms != NULL;
    for (int64_t j = 0, n; terms->keys_fit && j < attend->reach; j += n) {
        n = attend->reach - j < SGEMM_WIDTH ? attend->reach - j : SGEMM_WIDTH;
        attend->kernel->panel(keys + j * attend->k.row, attend->k.row, n, attend->size, panel);
        terms->keys_fit = terms_split_b(attend->key_terms, panel, SGEMM_WIDTH, attend->size, n,
                                        terms->keys + terms_b_words(attend->size, j));
    }
    terms->values_fit = attend->value_terms != NULL && terms_split_b(attend->value_terms, values, attend->v.row,
                                                                     attend->reach, attend->value_size, terms->values);
}

uint32_t attend_terms_scores(const struct attend *attend, const struct attend_terms *terms, const float *q,
                             int64_t q_row, int64_t rows, int64_t visible, float *scores)
{
    INLAY_CHECK(rows <= attend->rows && visible <= attend->reach);
    return terms_multiply(attend->key_terms, &(terms_product){ .m = rows,
                                                               .n = visible,
                                                               .k = attend->size,
                                                               .a = q,
                                                               .a_row = q_row,
                                                               .b = terms->keys,
                                                               .b_depth = attend->size,
                                                               .strict = attend->strict,
                                                               .c = scores,
                                                               .c_row = attend->score_row,
                                                               .room = terms->room });
}

/* All rows are in range for terms: the largest probability of a row is 1 (0 if no key is visible). A row with NaN has
 * NaN as its factor, too. */
void attend_terms_values(const struct attend *attend, const struct attend_terms *terms, const sgemm_job *job)
{
    const int64_t row = terms_panels(attend->value_size) * TERMS_WIDTH;

    (void)terms_multiply(attend->value_terms, &(terms_product){ .m = job->m,
                                                                .n = job->n,
                                                                .k = job->k,
                                                                .a = job->a,
                                                                .a_row = job->a_row,
                                                                .b = terms->values,
                                                                .b_depth = attend->reach,
                                                                .strict = attend->strict,
                                                                .fits = true,
                                                                .c = terms->results,
                                                                .c_row = row,
                                                                .room = terms->room });
    job->kernel->post(job->posts, terms->results, row, job->m, job->n);
    for (int64_t r = 0; r < job->m; r++)
        memcpy(job->c + r * job->c_row, terms->results + r * row, (size_t)job->n * sizeof *job->c);
}
