/* explain/internal.h - what the printers share; private to this folder. */
#ifndef EXPLAIN_INTERNAL_H
#define EXPLAIN_INTERNAL_H
#include "base/memory.h"
#include "explain/facts.h"
#include "base/words.h"

/* Fills refusals and refused of facts, whose graphs are there. False: no memory. */
bool facts_fold_refusals(struct facts *facts);

/* How the answer is to look. */
typedef struct explain_view {
    const explain_sink *sink;
    uint32_t columns;            /* of text, 0 = 100 */
    bool all;                    /* nothing is folded or left out */
    const char *const *what_ifs; /* [what_if_count] as asked */
    uint32_t what_if_count;
    const facts_outcome *outcome; /* of them; NULL = none were asked */
} explain_view;

/* The session as text, or as JSON. */
void text_session(const struct facts *facts, const explain_view *view);
void json_session(const struct facts *facts, const explain_view *view);
/* A value as a JSON object: name, dtype, shape, bytes. more: left open for the caller. */
void json_value(json_out *json, const char *key, const facts_graph *graph, uint32_t v, bool more);

/* The kernels of nodes, where they were asked for. */
void text_kernels(const struct facts *facts, const explain_view *view);
void json_kernel(json_out *json, const facts_kernel *kernel);

enum { NODES_SHOWN = 12, NODES_ASKED = 48 }; /* of those that a pattern matches: shown without `all`, fully answered */
/* All about the nodes that match. */
INLAY_NODISCARD inlay_status text_nodes(struct facts *facts, const char *pattern, const explain_view *view,
                                        inlay_diag *diag);
INLAY_NODISCARD inlay_status json_nodes(struct facts *facts, const char *pattern, const explain_view *view,
                                        inlay_diag *diag);
#endif
