/* ml_tree.h - declarations for the files of the tree ensembles: nodes as read from the model, and the flat form, which
 * is faster.
 *
 * ml_tree_ensemble.c and ml_tree_named.c read all three operators into `tree_state`. Where possible, ml_tree_flat.c
 * converts it to arrays. On these, several rows, or several trees for one row, are evaluated at once without
 * branches. */
#ifndef ML_TREE_H
#define ML_TREE_H
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/ml.h"

enum { TREE_LEQ, TREE_LT, TREE_GTE, TREE_GT, TREE_EQ, TREE_NEQ, TREE_MEMBER, TREE_LEAF };
enum { TREE_AVERAGE, TREE_SUM, TREE_MIN, TREE_MAX };

typedef struct tree_node {
    double split;
    uint32_t feature;
    uint8_t mode;
    bool missing_goes_true;
    uint32_t yes, no;    /* children */
    uint32_t first, end; /* LEAF: range of its weights; MEMBER: the set is sets[first] to sets[end - 1] */
} tree_node;

typedef struct tree_weight {
    double weight;
    uint32_t target;
} tree_weight;

typedef struct tree_flat tree_flat;

typedef struct tree_state {
    ml_pool pool;
    ml_pool reading; /* memory in use only while the node is read */
    ml_labels labels;
    bool classifies;
    bool one_sided;    /* two classes, and only one of them has weights */
    uint32_t side;     /* the class that has weights */
    bool all_positive; /* no weight is negative: a score is a probability */
    uint32_t transform, aggregate;
    int64_t targets, features; /* features: greater than the highest feature that a node tests */
    tree_node *nodes;          /* NULL after the conversion to the flat form */
    int64_t node_count;
    int64_t *roots;
    int64_t root_count;
    tree_weight *weights;
    double *sets;
    double *base;
    uint32_t base_count;
    tree_flat *flat; /* NULL: the nodes are traversed */
} tree_state;

/* Reports an invalid model. */
inlay_status tree_broken(inlay_diag *diag, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reads the nodes and weights of versions 1 and 3. Temporary memory stays in state->reading. The caller checks the
 * pools for failed allocations. */
inlay_status tree_read_named(const kit_node *node, tree_state *state, inlay_diag *diag);

/* Sets the children and the feature of a branch; returns false if a child or the feature is out of range. */
static inline bool tree_branch(tree_node *node, int64_t yes, int64_t no, int64_t feature)
{
    if (yes < 0 || no < 0 || feature < 0 || feature > INT32_MAX)
        return false;
    node->yes = (uint32_t)yes;
    node->no = (uint32_t)no;
    node->feature = (uint32_t)feature;
    return true;
}

/* Creates the flat form for inputs of `dtype`. Returns NULL if the nodes have none (because of a comparison for
 * equality, a split between two adjacent floats, or a cycle) or if out of memory; then `nodes` is traversed. */
tree_flat *tree_flat_create(const tree_state *state, inlay_dtype dtype);
void tree_flat_destroy(tree_flat *flat);
/* Returns whether the flat form contains all weights. Otherwise scores are summed from state->weights. */
bool tree_flat_is_direct(const tree_flat *flat);

/* A block of rows to evaluate. A row of scores has 2 * targets elements: for each target the sum of the weights, and
 * for each target their number (unless the aggregate is a sum). */
typedef struct tree_block {
    const void *input; /* [rows, columns] of dtype; the whole tensor */
    inlay_dtype dtype;
    int64_t columns, row; /* row: the first row of this block */
    int64_t rows;         /* number of rows of this block, at most tree_flat_rows() */
    double *scores;       /* zeroed */
    void *room;           /* tree_flat_room() bytes */
} tree_block;

int64_t tree_flat_rows(const tree_flat *flat);
/* Returns the scratch bytes for blocks of at most `rows` rows. */
uint64_t tree_flat_room(const tree_flat *flat, int64_t rows);
void tree_flat_run(const tree_flat *flat, const tree_state *state, const tree_block *block);

/* Adds the weights of a leaf to the scores of a row. */
static inline void tree_add(const tree_state *state, uint32_t first, uint32_t end, double *scores)
{
    double *seen = scores + state->targets;
    INLAY_CHECK(first <= end);

    for (uint32_t index = first; index < end; index++) {
        uint32_t target = state->weights[index].target;
        double weight = state->weights[index].weight;
        if (seen[target] == 0 || state->aggregate <= TREE_SUM)
            scores[target] += weight;
        else if (state->aggregate == TREE_MIN ? weight < scores[target] : weight > scores[target])
            scores[target] = weight;
        seen[target] += 1;
    }
}
#endif
