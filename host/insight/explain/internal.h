/* explain/internal.h - shared by the output formats; private to this folder. */
#ifndef EXPLAIN_INTERNAL_H
#define EXPLAIN_INTERNAL_H
#include "base/memory.h"
#include "explain/facts.h"
#include "tables/words.h"

/* Merges equal refusals of all graphs into facts->refusals and facts->refused; facts->graphs must be complete. */
INLAY_NODISCARD inlay_status facts_merge_refusals(struct facts *facts, inlay_diag *diag);

/* Options of the output. */
typedef struct explain_view {
    const explain_sink *sink;
    bool all;                    /* do not shorten lists */
    const char *const *what_ifs; /* [what_if_count] as the user wrote them */
    uint32_t what_if_count;
    const facts_outcome *outcome;     /* of the what_ifs; NULL = no what-if requested */
    facts_outcome *const *objectives; /* [OBJECTIVE_COUNT], see facts_objectives(); NULL = not requested */
    const facts_scale *scaling;       /* [FACTS_SCALES], see facts_scaling(); NULL = not requested */
} explain_view;

/* The session as one line, as text, or as JSON. */
void text_line(const struct facts *facts, const explain_sink *sink);
void text_session(const struct facts *facts, const explain_view *view);
void json_session(const struct facts *facts, const explain_view *view);
/* Writes a value as a JSON object: name, dtype, shape, bytes. more: leaves the object open for the caller. */
void json_value(json_out *json, const char *key, const facts_graph *graph, uint32_t value, bool more);

/* The kernels of nodes, if requested. */
void text_kernels(const struct facts *facts, const explain_view *view);
void json_kernel(json_out *json, const facts_kernel *kernel);
/* The member "scaling": times on other numbers of threads. */
void json_scaling(json_out *json, const facts_scale *scales);

/* Limits for the nodes that match a pattern. */
enum {
    NODES_SHOWN = 12,    /* nodes shown without `all` */
    NODES_EVALUATED = 48 /* nodes for which the result on every provider is computed */
};
/* Writes all details of the nodes that match. */
INLAY_NODISCARD inlay_status text_nodes(struct facts *facts, const char *pattern, const explain_view *view,
                                        inlay_diag *diag);
INLAY_NODISCARD inlay_status json_nodes(struct facts *facts, const char *pattern, const explain_view *view,
                                        inlay_diag *diag);
#endif
