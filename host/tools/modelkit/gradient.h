/* modelkit/gradient.h - expands Gradient nodes into derivatives: gradient.c walks the graph, gradient_rules.c holds the
 * rules of the operators. */
#ifndef MODELKIT_GRADIENT_H
#define MODELKIT_GRADIENT_H
#include "base/names.h"
#include "passes/body_nodes.h"

/* Replaces each Gradient by the operators that compute it; for passes_set_gradient(). */
INLAY_NODISCARD inlay_status gradient_expand(pass_ctx *ctx, bool *out_changed);

enum { GRADIENT_TERMS = 3 }; /* terms of a rule: one for each of the first inputs */

struct gradient {
    node_maker maker;
    struct graph *graph;
    const graph_node *node; /* the Gradient node */
    struct arena arena;
    names_table names;                   /* values of the graph by name */
    uint32_t nodes, values;              /* number of nodes and values of the graph before the expansion */
    uint32_t *replacement;               /* [values] the value to read instead */
    uint32_t *derivative;                /* [values] the derivative accumulated so far, INLAY_NONE = 0 */
    bool *active;                        /* [values] depends on the values to differentiate by */
    bool *needed;                        /* [values] y depends on it */
    bool *is_given;                      /* [values] named by xs or zs */
    const graph_node *at;                /* the node being differentiated */
    uint32_t in[GRADIENT_TERMS], y, g_y; /* inputs and output of `at`, and the derivative by this output */
    uint32_t by;                         /* the input to differentiate by, a value of the graph */
    inlay_dtype dtype;                   /* element type of the derivative */
};

static inline bool gradient_is_float(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT || dtype == INLAY_DOUBLE || dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16;
}

/* Does the value depend on the values to differentiate by? value may be INLAY_NONE. */
static inline bool gradient_reaches(const struct gradient *gradient, uint32_t value)
{
    return value != INLAY_NONE && gradient->active[value];
}

/* Adds the derivatives by the node's inputs, computed from the derivative by its output. INLAY_UNSUPPORTED: no rule. */
INLAY_NODISCARD inlay_status gradient_back(struct gradient *gradient, const graph_node *node, inlay_diag *diag);
/* A constant of type gradient->dtype, expanded to the shape of the value `like`. */
uint32_t gradient_filled(struct gradient *gradient, double x, uint32_t like);
#endif
