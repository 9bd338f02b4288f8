/* modelkit/gradient.h - what writes derivatives: gradient.c walks the graph, gradient_rules.c knows the operators. */
#ifndef MODELKIT_GRADIENT_H
#define MODELKIT_GRADIENT_H
#include "base/names.h"
#include "passes/body_nodes.h"

/* Puts the operators that compute it in the place of each Gradient: for passes_set_gradient(). */
INLAY_NODISCARD inlay_status gradient_spell_out(pass_ctx *ctx, bool *out_changed);

/* ------------------------------------------------------------------ between the two files */

enum { GRADIENT_TERMS = 3 };

struct gradient {
    node_maker maker;
    struct graph *graph;
    const graph_node *node; /* the Gradient */
    struct arena arena;
    names_table names;                   /* of the graph's values */
    uint32_t nodes, values;              /* of the graph, before */
    uint32_t *now;                       /* [values] what is read in the place of the value */
    uint32_t *slope;                     /* [values] the derivative by it so far, INLAY_NONE = 0 */
    bool *active;                        /* [values] depends on what is differentiated by */
    bool *needed;                        /* [values] y depends on it */
    bool *given;                         /* [values] named by xs or zs */
    const graph_node *at;                /* the node whose derivative is written ... */
    uint32_t in[GRADIENT_TERMS], y, g_y; /* ... its inputs, its output and the derivative by that */
    uint32_t by;                         /* the input that it is by, a value of the graph */
    inlay_dtype dtype;                   /* of the derivative */
};

static inline bool gradient_is_float(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT || dtype == INLAY_DOUBLE || dtype == INLAY_FLOAT16 || dtype == INLAY_BFLOAT16;
}

/* Does the value depend on what is differentiated by? value may be INLAY_NONE. */
static inline bool gradient_reaches(const struct gradient *gradient, uint32_t value)
{
    return value != INLAY_NONE && gradient->active[value];
}

/* Adds the derivatives by what the node reads, from that by its output. INLAY_UNSUPPORTED: there is no rule for it. */
INLAY_NODISCARD inlay_status gradient_back(struct gradient *gradient, const graph_node *node, inlay_diag *diag);
/* A number of type gradient->dtype in the shape of a value. */
uint32_t gradient_filled(struct gradient *gradient, double x, uint32_t like);
#endif
