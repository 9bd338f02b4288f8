/* Relu of Clamped is Clamped. */
#include "passes/rewrite.h"
#include <string.h>

inlay_status match_relu_of_clamped(struct rewrite *w, graph_node *n)
{
    const graph_node *clamped = pass_is_op(n, "Relu") ? rewrite_producer(w, rewrite_input(w, n, 0)) : NULL;
    bool done;

    if (clamped == NULL || strcmp(clamped->info.op_type.data, "Clamped") != 0)
        return INLAY_OK;
    return rewrite_forward(w, n->info.outputs[0], rewrite_input(w, n, 0), &done);
}
