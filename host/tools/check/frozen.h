/* check/frozen.h - a read-only copy of a graph snapshot, optionally with longer structs, as in a later host. */
#ifndef CHECK_FROZEN_H
#define CHECK_FROZEN_H
#include "check/guarded.h"
#include "inlay/graph_view.h"

struct frozen {
    const inlay_graph *graph;
    struct guarded memory;
};

/* Copies the whole graph, including strings and constants. borrowed: the copy points to the original constants, as in
 * compile. extra: zero bytes, a multiple of 8, appended to each struct and each array element. False: no memory. */
bool frozen_create(const inlay_graph *from, uint32_t extra, bool borrowed, struct frozen *out);
/* Forbids reading, too. To be called when the plugin function that received the graph has returned. */
void frozen_hide(struct frozen *frozen);
void frozen_destroy(struct frozen *frozen); /* no-op on a zeroed struct */
#endif
