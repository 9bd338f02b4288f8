#include "quantize/node_errors.h"
#include "base/checked.h"
#include "base/memory.h"
#include "config/options.h"
#include "data/compare.h"
#include "data/view.h"
#include "quantize/evaluate.h"
#include "quantize/low_bit.h"
#include "session/session.h"
#include <math.h>
#include <string.h>

static const double TIMED_S = 0.4;     /* for a comparison of times */
static const double LEAST_GAIN = 0.01; /* of a run: smaller differences of times are noise */

struct measuring {
    const node_errors_args *args;
    node_errors *out;
    inlay_options *plain; /* without reductions */
    struct subject before;
    double done, steps;
    bool failed; /* out of memory */
    inlay_diag *diag;
};

static inlay_status report(struct measuring *measuring, const char *what)
{
    const node_errors_args *args = measuring->args;

    if (args->progress != NULL && args->progress(args->progress_user, measuring->done / measuring->steps, what) != 0)
        return inlay_fail(measuring->diag, INLAY_CANCELLED, "stopped; nothing was written");
    measuring->done++;
    return INLAY_OK;
}

/* The number of elements; -1: unknown. */
static int64_t elements_of(const inlay_value_info *info)
{
    int64_t count = 1;

    for (uint32_t d = 0; d < info->rank; d++)
        if (info->rank == INLAY_RANK_UNKNOWN || !mul_dim(&count, info->dims[d].value))
            return -1;
    return count;
}

static bool add_row(struct measuring *measuring, const struct graph *graph, const graph_node *node, uint32_t arithmetic)
{
    const reduced_factor factor = reduced_product_factor(graph, node);
    node_errors *out = measuring->out;
    error_table *table = &out->table;
    uint32_t count = table->count;

    if (!ARENA_GROW(&out->arena, table->rows, table->count) || !ARENA_GROW(&out->arena, out->nodes, count))
        return false;
    out->nodes[count] = (node_error){ .op = arena_string(&out->arena, node->info.op_type.data),
                                      .sizes = { factor.depth, factor.columns,
                                                 elements_of(&graph->values[node->info.outputs[0]].info) } };
    table->rows[count] = (error_row){ .node = arena_string(&out->arena, node->info.name.data),
                                      .arithmetic = arithmetic,
                                      .weights = reduced_product_hash(graph, node) };
    table->count += out->nodes[count].op != NULL && table->rows[count].node != NULL;
    return table->count > count;
}

static bool add_left_out(node_errors *out, const graph_node *node)
{
    if (!ARENA_GROW(&out->arena, out->left_out, out->left_out_count))
        return false;
    out->left_out[out->left_out_count] = arena_string(&out->arena, node->info.name.data);
    return out->left_out[out->left_out_count] != NULL && ++out->left_out_count > 0;
}

/* Adds a node that the pass replaces, or that it leaves out (0). */
static void note(void *ctx, const char *pass, int64_t rewrite, const struct graph *graph, const graph_node *node,
                 const char *text)
{
    struct measuring *measuring = ctx;

    (void)text;
    if (strcmp(pass, "reduced_products") != 0 || node == NULL || !reduced_product_fits(graph, node, REDUCED_INT8) ||
        graph->values[node->info.inputs[1]].info.data_bytes < LOW_BIT_MIN_WEIGHTS * sizeof(float))
        return;
    if (rewrite == 0)
        measuring->failed |= !add_left_out(measuring->out, node);
    for (uint32_t arithmetic = 0; arithmetic < REDUCED_ARITHMETICS && rewrite > 0; arithmetic++)
        if (reduced_product_fits(graph, node, arithmetic))
            measuring->failed |= !add_row(measuring, graph, node, arithmetic);
}

/* Lists the nodes: those that the pass replaces if it may replace all. */
static inlay_status find_nodes(struct measuring *measuring)
{
    const session_watch watch = { .note = note, .ctx = measuring };
    const session_source source = { .path = measuring->args->model, .fd = -1 };
    inlay_options *options = NULL;
    inlay_session *session = NULL;
    inlay_diag why = INLAY_DIAG_INIT;
    inlay_status status;

    INLAY_TRY(evaluate_options(measuring->plain, "reduce", "*=int8", &options, measuring->diag));
    /* The model has been opened before: what fails now is the option, because there is no such node. */
    if (session_prepare(&source, options, &watch, &session, &why) != INLAY_OK && measuring->out->table.count > 0)
        status = inlay_fail(measuring->diag, INLAY_INTERNAL, "%.400s", why.text);
    if (measuring->failed)
        status = no_memory(measuring->diag, "for a table of errors");
done:
    inlay_session_destroy(session);
    inlay_options_destroy(options);
    return status;
}

/* Adds the row's node to option reduce: a pattern that matches its name alone. */
static inlay_status reduce_row(const error_row *row, inlay_options *options, inlay_diag *diag)
{
    enum { NAME_BYTES = 500 };
    char item[2 * NAME_BYTES + 32], *to = item;

    if (strlen(row->node) > NAME_BYTES)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the name of node '%.60s...' has %zu bytes, more than %d",
                          row->node, strlen(row->node), (int)NAME_BYTES);
    for (const char *from = row->node; *from != '\0'; from++) {
        if (from == row->node || strchr("*?[\\", *from) != NULL) /* the first: a name may begin with "op:" */
            *to++ = '\\';
        *to++ = *from;
    }
    (void)snprintf(to, (size_t)(item + sizeof item - to), "=%s", reduced_arithmetics[row->arithmetic]);
    return options_set_item(options, "reduce", item, diag);
}

/* Opens the model with the rows reduced for which use[] is set. */
static inlay_status open_reduced(const struct measuring *measuring, const bool *use, struct subject *out)
{
    const node_errors *errors = measuring->out;
    inlay_options *options = NULL;
    inlay_status status;

    INLAY_TRY(evaluate_options(measuring->plain, NULL, NULL, &options, measuring->diag));
    for (uint32_t i = 0; i < errors->table.count; i++)
        if (use[i])
            INLAY_TRY(reduce_row(&errors->table.rows[i], options, measuring->diag));
    status = subject_open(measuring->args->model, options, out, measuring->diag);
done:
    inlay_options_destroy(options);
    return status;
}

/* The largest difference of two values, relative to the largest element of the first; infinite if something else than
 * floats differs. */
static inlay_status difference(const inlay_value *want, const inlay_value *got, double *out, inlay_diag *diag)
{
    inlay_tensor_view expected, actual;
    struct comparison comparison;
    bool same = false;
    char text[200];
    double largest;
    inlay_status status = compare_values(got, want, 0, 0, &same, text, sizeof text, diag);

    *out = same ? 0 : INFINITY;
    if (status != INLAY_OK || same || !value_view(want, &expected) || !value_view(got, &actual) ||
        expected.dtype != actual.dtype || inlay_value_count(want) != inlay_value_count(got) ||
        (expected.dtype != INLAY_FLOAT && expected.dtype != INLAY_DOUBLE && expected.dtype != INLAY_FLOAT16 &&
         expected.dtype != INLAY_BFLOAT16))
        return status;
    comparison = compare_elements(actual.data, &expected, inlay_value_count(want), 0, 0);
    largest = compare_largest(&expected, inlay_value_count(want));
    *out = comparison.wrong == 0 ? 0 : largest > 0 ? comparison.worst / largest : (double)INFINITY;
    return INLAY_OK;
}

/* The largest difference of any output on any sample. */
static inlay_status measure_error(const struct measuring *measuring, const struct subject *after, double *out_error)
{
    const struct samples *set = measuring->args->data;
    inlay_value **values = NULL;
    inlay_status status = INLAY_OK;

    *out_error = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        INLAY_TRY(samples_load(set, i, &values, measuring->diag));
        INLAY_TRY(samples_run(set, values, measuring->before.session, measuring->before.context, measuring->diag));
        INLAY_TRY(samples_run(set, values, after->session, after->context, measuring->diag));
        for (uint32_t k = 0; k < inlay_session_output_count(after->session); k++) {
            double error;

            INLAY_TRY(difference(inlay_context_output(measuring->before.context, k),
                                 inlay_context_output(after->context, k), &error, measuring->diag));
            *out_error = error > *out_error ? error : *out_error;
        }
        samples_release(set, values);
        values = NULL;
    }
done:
    samples_release(set, values);
    return status;
}

static inlay_status measure_row(struct measuring *measuring, uint32_t row, bool *use)
{
    struct subject after = { 0 };
    inlay_status status;

    INLAY_TRY(report(measuring, "errors"));
    use[row] = true;
    INLAY_TRY(open_reduced(measuring, use, &after));
    status = measure_error(measuring, &after, &measuring->out->table.rows[row].error);
done:
    use[row] = false;
    subject_close(&after);
    return status;
}

static bool is_alike(const node_errors *errors, uint32_t a, uint32_t b)
{
    const node_error *left = &errors->nodes[a], *right = &errors->nodes[b];

    return errors->table.rows[a].arithmetic == errors->table.rows[b].arithmetic && strcmp(left->op, right->op) == 0 &&
           memcmp(left->sizes, right->sizes, sizeof left->sizes) == 0;
}

/* Times all rows that are like `row`, the first of them, and divides the gain among them. */
static inlay_status measure_gain(struct measuring *measuring, uint32_t row, bool *use)
{
    node_errors *errors = measuring->out;
    struct subject after = { 0 };
    uint32_t count = 0;
    double ms[2], gain;
    inlay_status status;

    INLAY_TRY(report(measuring, "times"));
    for (uint32_t i = row; i < errors->table.count; i++)
        count += use[i] = is_alike(errors, row, i);
    INLAY_TRY(open_reduced(measuring, use, &after));
    INLAY_TRY(
        evaluate_time(measuring->args->data, &measuring->before, &after, TIMED_S, &ms[0], &ms[1], measuring->diag));
    if (errors->table.run_ns == 0 || ms[0] * 1e6 < errors->table.run_ns)
        errors->table.run_ns = ms[0] * 1e6;
    gain = fabs(ms[0] - ms[1]) > LEAST_GAIN * ms[0] ? ms[0] - ms[1] : 0;
    for (uint32_t i = row; i < errors->table.count; i++)
        if (use[i])
            errors->table.rows[i].saved_ns = gain * 1e6 / count;
done:
    memset(use, 0, errors->table.count * sizeof *use);
    subject_close(&after);
    return status;
}

static inlay_status measure_choice(struct measuring *measuring, bool *use)
{
    node_errors *errors = measuring->out;
    struct subject after = { 0 };
    inlay_status status;

    errors->bound = error_table_choose(&errors->table, measuring->args->limit);
    for (uint32_t i = 0; i < errors->table.count; i++)
        errors->chosen += use[i] = errors->table.rows[i].chosen;
    if (errors->chosen == 0)
        return INLAY_OK;
    INLAY_TRY(report(measuring, "all together"));
    INLAY_TRY(open_reduced(measuring, use, &after));
    INLAY_TRY(measure_error(measuring, &after, &errors->measured));
    status = evaluate_time(measuring->args->data, &measuring->before, &after, 2 * TIMED_S, &errors->float_ms,
                           &errors->chosen_ms, measuring->diag);
done:
    subject_close(&after);
    return status;
}

inlay_status node_errors_measure(const node_errors_args *args, node_errors *out, inlay_diag *diag)
{
    static const char *const without[] = { "reduce", "max_error", "error_table", NULL };
    struct measuring measuring = { .args = args, .out = out, .diag = diag };
    bool *use;
    inlay_status status;

    *out = (node_errors){ .table.samples = args->data->count };
    INLAY_TRY(evaluate_options_without(args->options, without, &measuring.plain, diag));
    INLAY_TRY(subject_open(args->model, measuring.plain, &measuring.before, diag));
    INLAY_TRY(find_nodes(&measuring));
    use = arena_array(&out->arena, (size_t)out->table.count + 1, sizeof *use);
    if (use == NULL) {
        status = no_memory(diag, "for a table of errors");
        goto done;
    }
    measuring.steps = 2 * out->table.count + 1;
    for (uint32_t i = 0; i < out->table.count; i++)
        INLAY_TRY(measure_row(&measuring, i, use));
    for (uint32_t i = 0; i < out->table.count; i++) {
        uint32_t first = 0;

        while (!is_alike(out, first, i))
            first++;
        if (first == i)
            INLAY_TRY(measure_gain(&measuring, i, use));
    }
    if (args->limit > 0)
        status = measure_choice(&measuring, use);
done:
    subject_close(&measuring.before);
    inlay_options_destroy(measuring.plain);
    return status;
}

void node_errors_deinit(node_errors *errors)
{
    arena_deinit(&errors->arena);
    *errors = (node_errors){ 0 };
}
