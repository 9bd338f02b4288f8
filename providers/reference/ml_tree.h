/* ml_tree.h - what the files of the tree ensembles share: nodes as they are read, and the flat form that runs.
 *
 * ml_tree_ensemble.c and ml_tree_named.c read all three operators into `tree_state`; ml_tree_flat.c makes of it, where
 * it can, arrays that many rows or trees walk at once without branches. */
#ifndef ML_TREE_H
#define ML_TREE_H
#include "instance.h"
#include "ml.h"

enum { TREE_LEQ, TREE_LT, TREE_GTE, TREE_GT, TREE_EQ, TREE_NEQ, TREE_MEMBER, TREE_LEAF };
enum { TREE_AVERAGE, TREE_SUM, TREE_MIN, TREE_MAX };

typedef struct tree_node {
    double split;
    uint32_t feature;
    uint8_t mode;
    bool missing_goes_true;
    uint32_t yes, no;    /* children */
    uint32_t first, end; /* LEAF: its weights; MEMBER: the set is sets[first] to sets[end - 1] */
} tree_node;

typedef struct tree_weight {
    double weight;
    uint32_t target;
} tree_weight;

typedef struct tree_flat tree_flat;

typedef struct tree_state {
    ml_pool pool;
    ml_pool reading; /* only while the node is read */
    ml_labels labels;
    bool classifies;
    bool one_sided;    /* two classes, of which only one has weights */
    uint32_t side;     /* which of them */
    bool all_positive; /* weights: then a score is a probability */
    uint32_t transform, aggregate;
    int64_t targets, features; /* features: at least one more than the highest that a node looks at */
    tree_node *nodes;          /* NULL once they are flat */
    int64_t node_count;
    int64_t *roots;
    int64_t root_count;
    tree_weight *weights;
    double *sets;
    double *base;
    uint32_t base_count;
    tree_flat *flat; /* NULL: the nodes are walked as they are */
} tree_state;

/* What is wrong with a model. */
inlay_status tree_broken(inlay_diag *diag, const char *what);
/* Reads the nodes and weights of versions 1 and 3; what it needs for that is left in state->reading. A pool that has
 * failed says that memory ran out. */
inlay_status tree_read_named(const kit_node *node, tree_state *state, inlay_diag *diag);

/* Where a branch leads and what it looks at; false when that cannot be. */
static inline bool tree_branch(tree_node *node, int64_t yes, int64_t no, int64_t feature)
{
    if (yes < 0 || no < 0 || feature < 0 || feature > INT32_MAX)
        return false;
    node->yes = (uint32_t)yes;
    node->no = (uint32_t)no;
    node->feature = (uint32_t)feature;
    return true;
}

/* The flat form for inputs of `dtype`; NULL where it cannot stand for these nodes (a comparison for equality, a split
 * that no float tells from its neighbours, a circle), or without memory: then `nodes` is walked. */
tree_flat *tree_flat_create(const tree_state *state, inlay_dtype dtype);
void tree_flat_destroy(tree_flat *flat);
/* Does it hold all weights itself? Otherwise scores are added up from s->weights. */
bool tree_flat_is_direct(const tree_flat *flat);

/* Rows of `scores`, each of 2 * targets: sums, and how many weights each target has seen (not told of sums). */
typedef struct tree_block {
    const void *input; /* [rows, columns] of dtype; the whole tensor */
    inlay_dtype dtype;
    int64_t columns, row; /* row: the first of this block */
    int64_t rows;         /* of this block, at most tree_flat_rows() */
    double *scores;       /* zeroed */
    void *room;           /* tree_flat_room() bytes */
} tree_block;

int64_t tree_flat_rows(const tree_flat *flat);
/* For blocks of at most so many rows. */
uint64_t tree_flat_room(const tree_flat *flat, int64_t rows);
void tree_flat_run(const tree_flat *flat, const tree_state *state, const tree_block *block);

/* Adds the weights of a leaf to the scores of a row. */
static inline void tree_add(const tree_state *state, uint32_t first, uint32_t end, double *scores)
{
    double *seen = scores + state->targets;

    for (uint32_t weight = first; weight < end; weight++) {
        uint32_t k = state->weights[weight].target;
        double v = state->weights[weight].weight;
        if (seen[k] == 0 || state->aggregate <= TREE_SUM)
            scores[k] += v;
        else if (state->aggregate == TREE_MIN ? v < scores[k] : v > scores[k])
            scores[k] = v;
        seen[k] += 1;
    }
}
#endif
