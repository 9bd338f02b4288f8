/* TreeEnsembleClassifier, TreeEnsembleRegressor (ai.onnx.ml 1, 3, 5) and TreeEnsemble (5).
 *
 * All are converted to one array of nodes with the indices of their children; the weights of a leaf are contiguous.
 * Most are then converted to the flat form (ml_tree_flat.c); the others are traversed node by node. A traversal that
 * takes more steps than there are nodes is in a cycle, which is reported as an error. */
#include "operators/instance.h"
#include "inlay/check.h"
#include "operators/ml_attrs.h"
#include "operators/ml_tree.h"
#include "operators/work.h"
#include <stdarg.h>
#include <stdio.h>

enum { TREE_GRAIN = 1 << 15, TREE_LEAST_ROWS = 8 }; /* TREE_GRAIN: minimum steps per thread */

inlay_status tree_broken(inlay_diag *diag, const char *format, ...)
{
    char what[160];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return inlay_fail(diag, INLAY_INVALID_MODEL, "the trees are inconsistent: %s", what);
}

static void release_tree(void *state)
{
    tree_state *trees = state;

    if (trees != NULL) {
        ml_pool_deinit(&trees->pool);
        ml_pool_deinit(&trees->reading);
        tree_flat_destroy(trees->flat);
    }
    free(trees);
}

/* Returns the index of a child, which is a node or a leaf; leaves follow all nodes. -1: out of range. */
static int64_t tree_child(const tree_state *state, int64_t nodes, int64_t at, int64_t is_leaf)
{
    int64_t leaves = state->node_count - nodes;

    if (at < 0 || at >= (is_leaf ? leaves : nodes))
        return -1;
    return is_leaf ? nodes + at : at;
}

/* Reads the sets of the MEMBER nodes, which are stored one after another, each terminated by NaN. */
static inlay_status tree_members(const kit_node *node, tree_state *state, int64_t nodes, inlay_diag *diag)
{
    uint32_t count;
    uint32_t at = 0;

    state->sets = ml_doubles(&state->pool, node, "", "membership_values", &count);
    for (int64_t i = 0; i < nodes; i++) {
        tree_node *member = &state->nodes[i];
        if (member->mode != TREE_MEMBER)
            continue;
        member->first = at;
        while (at < count && state->sets != NULL && !isnan(state->sets[at]))
            at++;
        member->end = at;
        if (at >= count)
            return state->pool.failed ? INLAY_OK
                                      : tree_broken(diag, "membership_values ends before the sets of all nodes");
        at++;
    }
    return INLAY_OK;
}

static inlay_status tree_read_indexed(const kit_node *node, tree_state *state, inlay_diag *diag)
{
    uint32_t count, leaves, counts[6], weights, missing_count, roots;
    const int64_t *features = kit_attr_ints(node->info, "nodes_featureids", &count);
    const int64_t *yes = kit_attr_ints(node->info, "nodes_truenodeids", &counts[0]);
    const int64_t *no = kit_attr_ints(node->info, "nodes_falsenodeids", &counts[1]);
    const int64_t *yes_leaf = kit_attr_ints(node->info, "nodes_trueleafs", &counts[2]);
    const int64_t *no_leaf = kit_attr_ints(node->info, "nodes_falseleafs", &counts[3]);
    const int64_t *missing = kit_attr_ints(node->info, "nodes_missing_value_tracks_true", &missing_count);
    const int64_t *targets = kit_attr_ints(node->info, "leaf_targetids", &leaves);
    double *splits = ml_doubles(&state->reading, node, "", "nodes_splits", &counts[4]);
    double *modes = ml_doubles(&state->reading, node, "", "nodes_modes", &counts[5]);
    double *leaf_weights = ml_doubles(&state->reading, node, "", "leaf_weights", &weights);

    state->roots = ml_integers(&state->pool, node, "tree_roots", &roots);
    state->root_count = roots;
    for (uint32_t i = 0; i < 6; i++)
        if (counts[i] != count)
            return tree_broken(diag, "the nodes_* attributes differ in length");
    if (missing_count != 0 && missing_count != count)
        return tree_broken(diag,
                           "nodes_missing_value_tracks_true has another length than the other nodes_* attributes");
    if (count == 0 || weights != leaves || roots == 0)
        return tree_broken(diag, "it has no nodes or no roots, or the leaf_* attributes differ in length");
    state->node_count = (int64_t)count + leaves;
    if (state->node_count > UINT32_MAX)
        return tree_broken(diag, "more than 2^32 nodes");
    state->nodes = ml_alloc(&state->pool, (uint64_t)state->node_count, sizeof *state->nodes);
    state->weights = ml_alloc(&state->pool, leaves, sizeof *state->weights);
    if (state->pool.failed || state->reading.failed)
        return INLAY_OK;
    for (uint32_t i = 0; i < count; i++) {
        tree_node *branch = &state->nodes[i];
        branch->split = splits[i];
        branch->mode = modes[i] >= 0 && modes[i] <= TREE_MEMBER ? (uint8_t)modes[i] : TREE_LEAF;
        branch->missing_goes_true = i < missing_count && missing[i] != 0;
        if (branch->mode == TREE_LEAF || !tree_branch(branch, tree_child(state, count, yes[i], yes_leaf[i]),
                                                      tree_child(state, count, no[i], no_leaf[i]), features[i]))
            return tree_broken(diag, "branch %u has an unknown child, mode %g or feature %lld", i, modes[i],
                               (long long)features[i]);
    }
    for (uint32_t i = 0; i < leaves; i++) {
        state->nodes[count + i] = (tree_node){ .mode = TREE_LEAF, .first = i, .end = i + 1 };
        state->weights[i] = (tree_weight){ leaf_weights[i], (uint32_t)targets[i] };
        if (targets[i] < 0 || targets[i] >= state->targets)
            return tree_broken(diag, "leaf_targetids contains %lld, and there are %lld targets", (long long)targets[i],
                               (long long)state->targets);
    }
    for (uint32_t i = 0; i < roots; i++)
        if (state->roots[i] < 0 || state->roots[i] >= (int64_t)count)
            return tree_broken(diag, "tree_roots contains %lld, and there are %u nodes", (long long)state->roots[i],
                               count);
    return tree_members(node, state, count, diag);
}

static inlay_status tree_numbers(const kit_node *node, tree_state *state, bool indexed, inlay_diag *diag)
{
    static const char *const aggregates[] = { "AVERAGE", "SUM", "MIN", "MAX" };
    const char *name = kit_attr_string(node->info, "aggregate_function", "SUM");
    const char *transform = kit_attr_string(node->info, "post_transform", "NONE");

    if (indexed) {
        state->aggregate = (uint32_t)kit_attr_int(node->info, "aggregate_function", TREE_SUM);
        /* TreeEnsemble-5 numbers the transforms like ml.h: NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT. */
        state->transform = (uint32_t)kit_attr_int(node->info, "post_transform", ML_NONE);
    } else {
        for (state->aggregate = 0; state->aggregate < 4 && strcmp(name, aggregates[state->aggregate]) != 0;)
            state->aggregate++;
        if (!ml_transform_find(transform, &state->transform))
            state->transform = ML_TRANSFORMS;
    }
    if (state->aggregate > TREE_MAX || state->transform >= ML_TRANSFORMS)
        return inlay_fail(diag, INLAY_INVALID_MODEL,
                          "aggregate_function or post_transform is not one that ONNX defines");
    if (state->classifies)
        ml_labels_read(&state->pool, node, "classlabels_int64s", &state->labels);
    state->targets = state->classifies ? state->labels.count : kit_attr_int(node->info, "n_targets", 1);
    state->base = ml_doubles(&state->pool, node, "base_values", "base_values_as_tensor", &state->base_count);
    if (state->targets <= 0 || state->targets > INT32_MAX)
        return inlay_fail(diag, INLAY_INVALID_MODEL, "%lld %s; at least one is required", (long long)state->targets,
                          state->classifies ? "class labels" : "targets");
    return INLAY_OK;
}

/* Computes properties of the whole ensemble from its weights and features. */
static void tree_survey(tree_state *state)
{
    int64_t only = -1;

    state->one_sided = state->classifies && state->targets == 2;
    state->all_positive = true;
    for (int64_t i = 0; i < state->node_count; i++) {
        const tree_node *node = &state->nodes[i];
        if (node->mode != TREE_LEAF && node->feature >= state->features)
            state->features = (int64_t)node->feature + 1;
        for (uint32_t weight = node->first; node->mode == TREE_LEAF && weight < node->end; weight++) {
            state->all_positive = state->all_positive && state->weights[weight].weight >= 0;
            state->one_sided = state->one_sided && (only < 0 || only == state->weights[weight].target);
            only = state->weights[weight].target;
        }
    }
    state->side = state->one_sided && only > 0;
    /* All weights are added to the first score; state->side is the class that they belong to. */
    for (int64_t i = 0; i < state->node_count && state->one_sided; i++)
        for (uint32_t weight = state->nodes[i].first; state->nodes[i].mode == TREE_LEAF && weight < state->nodes[i].end;
             weight++)
            state->weights[weight].target = 0;
}

/* Clears the base values of targets without weights: with several targets, ONNX Runtime's result for these is 0. */
static inlay_status tree_drop_bases(tree_state *state, inlay_diag *diag)
{
    bool *written;

    if (state->classifies || state->targets < 2 || state->base_count != state->targets)
        return INLAY_OK;
    written = calloc((size_t)state->targets, sizeof *written);
    if (written == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for trees");
    for (int64_t i = 0; i < state->node_count; i++)
        for (uint32_t weight = state->nodes[i].first; state->nodes[i].mode == TREE_LEAF && weight < state->nodes[i].end;
             weight++)
            written[state->weights[weight].target] = true;
    for (int64_t target = 0; target < state->targets; target++)
        state->base[target] = written[target] ? state->base[target] : 0;
    free(written);
    return INLAY_OK;
}

/* Converts the trees to the flat form and frees the nodes and weights that this form does not need. */
static void tree_flatten(tree_state *state, inlay_dtype dtype)
{
    state->flat = tree_flat_create(state, dtype);
    if (state->flat == NULL)
        return;
    ml_free(&state->pool, state->nodes);
    state->nodes = NULL;
    if (tree_flat_is_direct(state->flat)) {
        ml_free(&state->pool, state->weights);
        state->weights = NULL;
    }
}

static inlay_status prepare_tree(const kit_node *node, void **out_state, inlay_diag *diag)
{
    bool indexed = strcmp(kit_op_type(node), "TreeEnsemble") == 0;
    tree_state *state = calloc(1, sizeof *state);
    inlay_status status;

    if (state == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for trees");
    state->classifies = strcmp(kit_op_type(node), "TreeEnsembleClassifier") == 0;
    INLAY_TRY(tree_numbers(node, state, indexed, diag));
    INLAY_TRY(indexed ? tree_read_indexed(node, state, diag) : tree_read_named(node, state, diag));
    if (state->pool.failed || state->reading.failed) {
        status = inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for trees");
        goto done;
    }
    ml_pool_deinit(&state->reading);
    if (state->base_count != 0 && state->base_count != state->targets && state->base_count != 1) {
        status = tree_broken(diag, "base_values must have one entry per target");
        goto done;
    }
    tree_survey(state);
    INLAY_TRY(tree_drop_bases(state, diag));
    tree_flatten(state, kit_input_dtype(node, 0));
done:
    if (status == INLAY_OK)
        *out_state = state;
    else
        release_tree(state);
    return status;
}

/* Returns the maximum number of rows that a worker processes at once. */
static int64_t tree_block_rows(const tree_state *state, int64_t rows)
{
    const int64_t most = state->flat != NULL ? tree_flat_rows(state->flat) : 1;
    return rows < most ? rows : most;
}
/* Returns the scratch bytes of a worker: the scores of a block, then the keys of the block (flat form) or one row of
 * doubles. */
static uint64_t tree_scratch(const tree_state *state, int64_t rows)
{
    const int64_t block = tree_block_rows(state, rows);
    const uint64_t scores = (uint64_t)(block * 2 * state->targets) * sizeof(double);
    const uint64_t room =
        state->flat != NULL ? tree_flat_room(state->flat, block) : (uint64_t)state->features * sizeof(double);

    return (scores + room + 63) / 64 * 64;
}

static inlay_status shape_tree(const void *state, kit_plan *plan, inlay_diag *diag)
{
    const tree_state *trees = state;
    int64_t rows = 0, columns = 0;
    inlay_status status = ml_matrix(&plan->in[0], &rows, &columns, diag);

    if (status == INLAY_OK && columns < trees->features && rows > 0)
        status = inlay_fail(diag, INLAY_SHAPE_MISMATCH, "X has %lld features, the trees use %lld", (long long)columns,
                            (long long)trees->features);
    ml_allocates(plan);
    plan->workspace_bytes = tree_scratch(trees, rows) * plan->max_threads;
    return status;
}

/* Returns whether the value takes the branch `yes` of a node. */
static bool tree_takes_yes(const tree_state *state, const tree_node *node, double value)
{
    INLAY_CHECK(node->mode != TREE_LEAF);
    if (isnan(value) && node->missing_goes_true)
        return true;
    switch (node->mode) {
    case TREE_LEQ:
        return value <= node->split;
    case TREE_LT:
        return value < node->split;
    case TREE_GTE:
        return value >= node->split;
    case TREE_GT:
        return value > node->split;
    case TREE_EQ:
        return value == node->split;
    case TREE_NEQ:
        return value != node->split;
    default:
        for (int64_t i = node->first; i < node->end; i++)
            if (state->sets[i] == value)
                return true;
        return false;
    }
}

/* Adds the leaves that the sample reaches; returns false if a tree has a cycle. */
static bool tree_walk(const tree_state *state, const double *input, double *scores)
{
    INLAY_CHECK(state->nodes != NULL);
    for (int64_t root = 0; root < state->root_count; root++) {
        const tree_node *node = &state->nodes[state->roots[root]];
        int64_t steps = 0;
        while (node->mode != TREE_LEAF) {
            node = &state->nodes[tree_takes_yes(state, node, input[node->feature]) ? node->yes : node->no];
            if (++steps > state->node_count)
                return false;
        }
        tree_add(state, node->first, node->end, scores);
    }
    return true;
}

/* The class of a model with two classes and weights for one of them, which are in scores[0]. The specification defines
 * little of this; the results are those of ONNX Runtime 1.30, including its inconsistencies:
 *  - Weights of class 0, as converters write them, are the score of class 1. Class 1 wins if the score is above 0, or
 *    above one half if no weight is negative. Only LOGISTIC transforms the score. It ignores the threshold of one
 *    half: a positive score below one half gives class 0, although class 1 gets the higher probability, unlike in
 *    xgboost. PROBIT: ONNX Runtime 1.30 does not write the second score.
 *  - With two base values, that of class 0 is added, and class 1 has none; the sum still decides the class.
 *  - Weights of class 1 are its score, and class 0 has none. A single base value is not added; of two, that of class 1
 *    replaces the weights.
 *  - SOFTMAX_ZERO of zeros only is 0 / 0.
 *  - Sums are rounded to float, unless the input is double. */
static int64_t tree_decide_one_sided(const tree_state *state, bool in_double, double *scores)
{
    const bool pair = state->base_count == 2, single = state->side == 0 && !pair;
    double score = scores[0];
    bool is_second;

    INLAY_CHECK(state->one_sided && state->side < 2);
    if (state->side == 0)
        score += state->base_count > 0 ? state->base[0] : 0;
    else if (pair)
        score = state->base[1];
    score = in_double ? score : (double)(float)score;
    is_second = score > (state->all_positive ? 0.5 : 0);
    if (single && state->transform == ML_PROBIT) {
        scores[0] = score;
        scores[1] = 1 - score;
        ml_transform(ML_PROBIT, scores, 2);
    } else if (single) {
        scores[0] = score;
        ml_two_scores(state->transform == ML_LOGISTIC ? ML_LOGISTIC : ML_NONE, !state->all_positive, scores);
    } else {
        scores[state->side] = score;
        scores[1 - state->side] = 0;
        ml_transform(state->transform, scores, 2);
        if (state->transform == ML_SOFTMAX_ZERO && score == 0)
            scores[0] = scores[1] = NAN;
    }
    return is_second;
}

/* Computes the class of a sample, and replaces the scores by the outputs of the model. */
static int64_t tree_decide(const tree_state *state, bool in_double, double *scores)
{
    int64_t best = 0;

    if (state->one_sided)
        return tree_decide_one_sided(state, in_double, scores);
    for (int64_t target = 0; target < state->targets && state->base_count > 0; target++)
        scores[target] += state->base[state->base_count == 1 ? 0 : target];
    for (int64_t target = 1; target < state->targets; target++)
        best = scores[target] > scores[best] ? target : best;
    ml_transform(state->transform, scores, state->targets);
    return best;
}

/* Computes the outputs of row `row` from its scores. */
static inlay_status tree_finish(const kit_call *call, int64_t row, double *scores)
{
    const tree_state *state = call->state;
    kit_tensor *output = &call->out[state->classifies ? 1 : 0];
    inlay_status status = INLAY_OK;

    if (state->classifies) {
        int64_t best = tree_decide(state, call->in[0].dtype == INLAY_DOUBLE, scores);
        if (kit_has_output(call, 0))
            status = ml_put_label(call, &state->labels, best, &call->out[0], row);
    } else {
        for (int64_t target = 0; target < state->targets; target++) {
            scores[target] /= state->aggregate == TREE_AVERAGE ? (double)state->root_count : 1;
            scores[target] += state->base_count > 0 ? state->base[state->base_count == 1 ? 0 : target] : 0;
        }
        ml_transform(state->transform, scores, state->targets);
    }
    if (!state->classifies || kit_has_output(call, 1))
        convert_from_f64(output->dtype, output->data, row * state->targets, state->targets, scores, 0);
    return status;
}

static inlay_status tree_rows(void *user, int64_t begin, int64_t end, uint32_t worker)
{
    const kit_call *call = user;
    const tree_state *state = call->state;
    const kit_tensor *input = &call->in[0];
    const int64_t columns = input->dims[input->rank - 1], rows = input->rank == 2 ? input->dims[0] : 1;
    const int64_t max_rows = tree_block_rows(state, rows), stride = 2 * state->targets;
    double *scores = (double *)((char *)call->workspace + worker * tree_scratch(state, rows));
    tree_block block = { .input = input->data,
                         .dtype = input->dtype,
                         .columns = columns,
                         .scores = scores,
                         .room = scores + max_rows * stride };
    inlay_status status = INLAY_OK;

    INLAY_CHECK(state->flat != NULL || state->nodes != NULL);
    for (int64_t row = begin; row < end && status == INLAY_OK; row += block.rows) {
        block.row = row;
        block.rows = end - row < max_rows ? end - row : max_rows;
        memset(scores, 0, (size_t)(block.rows * stride) * sizeof *scores);
        if (state->flat != NULL) {
            tree_flat_run(state->flat, state, &block);
        } else {
            convert_to_f64(block.room, input->dtype, input->data, row * columns, state->features);
            if (!tree_walk(state, block.room, scores))
                return inlay_fail(call->diag, INLAY_INVALID_MODEL, "the branches of a tree form a cycle");
        }
        for (int64_t i = 0; i < block.rows && status == INLAY_OK; i++)
            status = tree_finish(call, row + i, scores + i * stride);
        if (status == INLAY_OK)
            status = kit_poll(call);
    }
    return status;
}

static inlay_status run_tree(const kit_call *call)
{
    const tree_state *state = call->state;
    int64_t dims[2] = { 0, state->targets }, features = 0;
    inlay_status status = ml_matrix(&call->in[0], &dims[0], &features, call->diag);
    kit_call job = *call;

    if (status == INLAY_OK)
        status = ml_outputs(&job, state->classifies, dims);
    if (status != INLAY_OK)
        return status;
    return kit_parallel(call, dims[0],
                        state->labels.texts != NULL ? dims[0] + 1
                                                    : TREE_GRAIN / (8 * state->root_count) + TREE_LEAST_ROWS,
                        tree_rows, &job);
}

/* Estimates the number of steps as the depth of balanced trees. */
static void cost_tree(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    const double step_ns = 1.0, feature_ns = 1.5, row_ns = 60;
    const kit_tensor *input = &shapes->in[0];
    uint32_t nodes = 0, roots = 0;
    const int64_t *tree_ids = kit_attr_ints(node->info, "nodes_treeids", &nodes);
    double trees, steps, columns, rows;

    if (tree_ids == NULL) {
        (void)kit_attr_ints(node->info, "nodes_featureids", &nodes);
        (void)kit_attr_ints(node->info, "tree_roots", &roots);
        nodes *= 2; /* leaves are listed separately */
    } else if (nodes > 0) {
        roots = (uint32_t)(tree_ids[nodes - 1] >= tree_ids[0] && tree_ids[nodes - 1] - tree_ids[0] < nodes
                               ? tree_ids[nodes - 1] - tree_ids[0] + 1
                               : 1);
    }
    trees = roots > 0 ? roots : 1;
    steps = trees * log2((double)nodes / trees + 1);
    columns = input->rank > 0 && input->dims[input->rank - 1] > 0 ? (double)input->dims[input->rank - 1] : 1;
    rows = work_count(input) / columns;
    work_cost(shapes, rows * steps, step_ns + (columns * feature_ns + row_ns) / steps, rows, cost);
}

#define TREE_KERNEL(name, types)                                                                                       \
    {                                                                                                                  \
        .domain = "ai.onnx.ml", .op_type = name, .in_types = { types }, .prepare = prepare_tree,                       \
        .release = release_tree, .shape = shape_tree, .cost = cost_tree, .run = run_tree                               \
    }

static const kit_kernel kernels[] = {
    TREE_KERNEL("TreeEnsembleClassifier", ML_NUMBERS),
    TREE_KERNEL("TreeEnsembleRegressor", ML_NUMBERS),
    TREE_KERNEL("TreeEnsemble", KIT_BIT(FLOAT) | KIT_BIT(DOUBLE) | KIT_BIT(FLOAT16)),
};
const kit_table OPERATOR(operators_ml_tree_ensemble) = { kernels, KIT_COUNT(kernels) };
