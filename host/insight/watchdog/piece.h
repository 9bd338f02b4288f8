/* watchdog/piece.h - some nodes of a graph, computed one by one on host tensors by one provider. */
#ifndef WATCHDOG_PIECE_H
#define WATCHDOG_PIECE_H
#include "plan/program.h"

/* How the values of a piece compare between providers. */
enum piece_kind {
    PIECE_EXACT,   /* every element is equal: integers, and elements that are only moved or chosen */
    PIECE_ROUNDED, /* floats, or integers that were rounded from floats */
    PIECE_SKIPPED  /* it has no bound, or its result depends on more than its inputs */
};

struct piece {
    const struct graph *graph;
    const uint32_t *nodes; /* [node_count] in execution order */
    const uint32_t *outputs;
    uint32_t node_count, output_count;
};

/* Marks of values that providers may round differently: by the node that computes the value, or by an earlier one. */
enum { PIECE_INEXACT = 1, PIECE_ROUNDS = 2 };
/* Classifies the nodes. inexact [value_count], initially 0: receives the marks of their outputs. *out_why: if skipped,
 * the reason, a constant text; *out_node: the node that it is about. */
enum piece_kind piece_classify(const struct piece *piece, uint8_t *inexact, const char **out_why,
                               const graph_node **out_node);

/* Computed values of a graph. */
typedef struct piece_values {
    inlay_value_info *infos; /* [value_count] with the sizes and elements of the values that are known */
    void **owned;            /* [value_count] from malloc, or NULL */
    uint32_t count;
    uint64_t bytes; /* of owned */
    uint8_t *marks; /* [value_count] floats_marks() */
} piece_values;

/* The values of the graph before any node is computed: sizes and elements of constants. False: out of memory. */
bool piece_values_init(piece_values *values, const struct graph *graph);
void piece_values_deinit(piece_values *values); /* {0} is a no-op */
/* Sets a value, which borrows data; dims are copied. False: out of memory. */
bool piece_values_set(piece_values *values, uint32_t value, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                      const void *data, uint64_t bytes);

/* May an intermediate result of a node that rounds overflow, so that its result depends on the kernel? */
bool piece_may_overflow(const struct piece *piece, const uint8_t *inexact, const piece_values *values);

/* What computes a piece, and with which limits. */
typedef struct piece_machine {
    program_folder *folder;
    const partition_provider *provider;
    const uint32_t *cancel;
    uint64_t max_bytes; /* of all computed values of a piece */
    bool reduced;       /* floats may be computed with 16 bits */
} piece_machine;

/* Errors that are added to everything that is rounded, to learn how far rounding errors change the results. */
typedef struct piece_noise {
    const uint8_t *inexact; /* of piece_classify() */
    uint64_t seed;
} piece_noise;

/* Computes the nodes from the values that are set; sets their outputs, which values own. noise: NULL = none.
 * INLAY_UNSUPPORTED: the provider does not run a node by itself. diag->node is the node that failed. */
INLAY_NODISCARD inlay_status piece_compute(const piece_machine *machine, const struct piece *piece,
                                           const piece_noise *noise, piece_values *values, inlay_diag *diag);

/* The largest error of a correct kernel is this many times the deviation that piece_noise causes. */
enum { PIECE_MARGIN = 4 };
#endif
