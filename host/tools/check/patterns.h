/* check/patterns.h - the groups of nodes that a provider offers together, and graphs that contain them.
 *
 * A provider states no list of groups. patterns_find() shows it graphs: each pair of operators, the rows of
 * patterns.def, and what it offered with one more node behind. A graph with an offer of several nodes is a pattern. */
#ifndef CHECK_PATTERNS_H
#define CHECK_PATTERNS_H
#include "check/region_run.h"

enum { MOST_PATTERNS = 48, USUAL_CASES = 3 };

/* An operator with cases of a few ranks. */
struct pattern_source {
    case_source source;
    op_schema schema;
    op_case usual[USUAL_CASES]; /* [count] */
    uint32_t count;
    bool is_known; /* the provider offers one of the cases alone, or refuses it for another reason than the operator */
};

struct pattern {
    struct part *parts; /* [count] owned; their results are unused */
    uint32_t count;
    char name[200]; /* of the nodes in the group: "Conv Relu<0"; see region_name() */
};

struct patterns {
    struct regions *regions;
    struct pattern_source *sources; /* [source_count] */
    uint32_t source_count;
    struct pattern list[MOST_PATTERNS]; /* [count] */
    uint32_t count;
    struct arena arena; /* of the sources */
};

/* Fills in the list for regions->provider. patterns: zeroed but for regions. Call patterns_deinit() in any case. False:
 * no memory. */
bool patterns_find(struct patterns *patterns, const inlay_operator *const *custom, uint32_t custom_count);
void patterns_deinit(struct patterns *patterns);
/* The number of groups that a provider offers, at most MOST_PATTERNS. */
uint32_t patterns_count(struct check *check, const struct fixture *fixture, const loaded_provider *provider);
/* The source of an operator of ai.onnx; NULL: there is none. */
const struct pattern_source *patterns_source(const struct patterns *patterns, const char *op_type);

/* Appends copies of parts [count] to the graph; links between them are kept. False: too many parts. */
bool patterns_place(struct regions *regions, const struct part *parts, uint32_t count);
/* Appends a node that reads output 0 of part `of`, or (INLAY_NONE) an input of its own, at input `input`. False: there
 * are too many parts. */
bool patterns_append(struct regions *regions, const op_case *entry, uint32_t input, uint32_t of);
/* Gives part j the types and sizes of what it reads. False: what it should read does not exist. */
bool patterns_fit(struct regions *regions, uint32_t j);
/* Gives the inputs of part j without elements random ones. False: no memory, or too many elements. */
bool patterns_fill(struct regions *regions, uint32_t j);
/* Does both for each part, and runs it by another provider, or alone by its own one. False: the graph is not legal, or
 * nothing runs it. */
bool patterns_evaluate(struct regions *regions);

#endif
