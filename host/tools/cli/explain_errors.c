#include "cli/explain_errors.h"
#include "base/element.h"
#include "cli/cells.h"
#include "cli/inputs.h"
#include "config/checks.h"
#include "config/options.h"
#include "data/dataset.h"
#include "quantize/evaluate.h"
#include "quantize/node_errors.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RANDOM_SAMPLES = 8 };

/* The share of the row in the errors of all nodes in the same arithmetic. */
static double share(const node_errors *errors, uint32_t row)
{
    double sum = 0;

    for (uint32_t i = 0; i < errors->table.count; i++)
        sum += errors->table.rows[i].arithmetic == errors->table.rows[row].arithmetic ? errors->table.rows[i].error : 0;
    return sum > 0 && isfinite(sum) ? errors->table.rows[row].error / sum : 0;
}

static void add_rows(struct table *table, const node_errors *errors, bool chooses)
{
    enum { NODE, OP, SIZES, ARITHMETIC, ERROR, SHARE, SAVED, OF_RUN, CHOSEN, COLUMNS };
    static const table_column columns[COLUMNS] = {
        [NODE] = { "node", "node", TABLE_NAME },
        [OP] = { "operator", "op", TABLE_NAME },
        [SIZES] = { "weights", "weights", TABLE_NUMBER },
        [ARITHMETIC] = { "in", "arithmetic", TABLE_NAME },
        [ERROR] = { "error", "error", TABLE_NUMBER },
        [SHARE] = { "share", "share", TABLE_NUMBER },
        [SAVED] = { "saves us", "saved_ns", TABLE_NUMBER },
        [OF_RUN] = { "of a run", NULL, TABLE_NUMBER },
        [CHOSEN] = { "", "chosen", TABLE_NAME },
    };

    *table = (struct table){ .columns = columns, .column_count = COLUMNS };
    for (uint32_t i = 0; i < errors->table.count; i++) {
        const error_row *row = &errors->table.rows[i];
        char sizes[64];

        (void)snprintf(sizes, sizeof sizes, "%lldx%lld", (long long)errors->nodes[i].sizes[0],
                       (long long)errors->nodes[i].sizes[1]);
        table_row(table);
        table_text(table, NODE, row->node);
        table_text(table, OP, errors->nodes[i].op);
        table_text(table, SIZES, sizes);
        table_text(table, ARITHMETIC, reduced_arithmetics[row->arithmetic]);
        table_real(table, ERROR, row->error, "%.2g", row->error);
        table_real(table, SHARE, share(errors, i), "%.1f %%", 100 * share(errors, i));
        table_real(table, SAVED, row->saved_ns, "%.3g", row->saved_ns * 1e-3);
        table_say(table, OF_RUN, "%.1f %%", 100 * row->saved_ns / errors->table.run_ns);
        if (chooses)
            table_truth(table, CHOSEN, row->chosen, row->chosen ? "chosen" : "");
    }
}

/* Finds the inputs of floats that have the same element everywhere in all samples, such as 0: nodes make no errors on
 * such inputs that tell of others. *out: their names, a list of JSON. */
static inlay_status find_constant_inputs(const struct samples *set, json_t **out, inlay_diag *diag)
{
    const uint32_t count = inlay_session_input_count(set->of);
    inlay_status status = INLAY_OK;

    *out = json_array();
    for (uint32_t input = 0; input < count; input++) {
        inlay_io_info info = { .struct_size = sizeof info };
        uint8_t first[sizeof(double)];
        int64_t elements = 0;
        bool same;

        INLAY_TRY(inlay_session_input(set->of, input, &info));
        same = inlay_dtype_bits(info.dtype) % 8 == 0;
        for (uint32_t i = 0; i < set->count && same && element_is_float(info.dtype); i++) {
            const size_t bytes = inlay_dtype_bits(info.dtype) / 8;
            inlay_value **values = NULL;

            status = samples_load(set, i, &values, diag);
            if (status == INLAY_OK && values[input] != NULL) {
                const uint8_t *data = inlay_value_data(values[input]);
                const int64_t some = inlay_value_count(values[input]);

                if (elements == 0 && some > 0)
                    memcpy(first, data, bytes);
                for (int64_t k = 0; k < some && same; k++)
                    same = memcmp(first, data + (size_t)k * bytes, bytes) == 0;
                elements += some;
            }
            samples_release(set, values);
            INLAY_TRY(status);
        }
        if (same && elements > 1)
            (void)json_array_append_new(*out, json_string(info.name));
    }
done:
    return status;
}

static json_t *errors_json(const node_errors *errors, double limit, json_t *rows, json_t *constant)
{
    json_t *json = json_pack("{s:i, s:f, s:o, s:[], s:O}", "samples", (int)errors->table.samples, "run_ms",
                             errors->table.run_ns * 1e-6, "rows", rows, "left_out", "constant_inputs", constant);

    for (uint32_t i = 0; json != NULL && i < errors->left_out_count; i++)
        (void)json_array_append_new(json_object_get(json, "left_out"), json_string(errors->left_out[i]));
    if (json != NULL && limit > 0)
        (void)json_object_set_new(json, "choice",
                                  json_pack("{s:f, s:i, s:f, s:f, s:f, s:f}", "max_error", limit, "nodes",
                                            (int)errors->chosen, "bound", errors->bound, "measured", errors->measured,
                                            "ms_before", errors->float_ms, "ms_after", errors->chosen_ms));
    return json;
}

static void print_choice(const node_errors *errors, double limit)
{
    const double margin = error_table_margin(errors->table.samples);

    if (errors->chosen == 0)
        (void)printf("max error %.3g: no node saves time and has an error below %.2g (errors count %.2f times, because "
                     "other inputs may have larger ones)\n",
                     limit, limit / margin, margin);
    else
        (void)printf("max error %.3g: %u nodes; predicted error below %.3g (the sum of their errors, each counted %.2f "
                     "times, because other inputs may have larger ones), measured %.3g; %.3g ms -> %.3g ms\n",
                     limit, errors->chosen, errors->bound, margin, errors->measured, errors->float_ms,
                     errors->chosen_ms);
}

/* A session that only describes the inputs: the limit needs the table that is made here. */
static inlay_status open_plain(const explain_errors_args *args, cli_common *common, inlay_session **out_session,
                               inlay_diag *diag)
{
    static const char *const without[] = { "reduce", "max_error", "error_table", NULL };
    cli_common own = *common;
    inlay_status status;

    INLAY_TRY(evaluate_options_without(common->options, without, &own.options, diag));
    status = cli_open(&own, args->model, out_session, diag);
done:
    if (own.options != common->options)
        inlay_options_destroy(own.options);
    return status;
}

inlay_status explain_errors(const explain_errors_args *args, cli_common *common, inlay_diag *diag)
{
    node_errors_args how = { .model = args->model,
                             .options = common->options,
                             .progress = common->quiet ? NULL : cli_progress };
    const bool limited = option_limit(options_text(common->options, OPTION_max_error), &how.limit) && how.limit > 0;
    inlay_session *session = NULL;
    struct dataset *set = NULL;
    node_errors errors = { 0 };
    struct samples samples;
    struct table table;
    json_t *constant = NULL;
    inlay_status status;

    common->many_sessions = true; /* one progress bar for all sessions */
    INLAY_TRY(open_plain(args, common, &session, diag));
    INLAY_TRY(dataset_open(args->data,
                           args->samples > 0    ? args->samples
                           : args->data == NULL ? RANDOM_SAMPLES
                                                : 0,
                           cli_samples_caller(common), session, &set, diag));
    samples = dataset_samples(set);
    if (samples.count == 0) {
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s has no samples", args->data);
        goto done;
    }
    how.data = &samples;
    INLAY_TRY(node_errors_measure(&how, &errors, diag));
    cli_progress_clear();
    if (args->save != NULL)
        INLAY_TRY(error_table_write(args->save, &errors.table, diag));
    INLAY_TRY(find_constant_inputs(&samples, &constant, diag));
    add_rows(&table, &errors, limited);
    if (common->json) {
        (void)cli_print_json(common, errors_json(&errors, how.limit, cells_json(&table), constant), CLI_OK);
        goto done;
    }
    cells_print(&table);
    for (uint32_t i = 0; i < errors.left_out_count; i++)
        (void)printf("skipped: node '%s', which has a weight that is NaN or infinite\n", errors.left_out[i]);
    if (errors.table.count == 0)
        (void)printf("no MatMul, Gemm or Conv of the main graph has constant weights of finite floats\n");
    else
        (void)printf(
            "%u %ssample%s, %.3g ms a run; error: largest change of an output, relative to its largest element, "
            "with this node alone in the arithmetic\n",
            errors.table.samples, args->data == NULL ? "random " : "", errors.table.samples == 1 ? "" : "s",
            errors.table.run_ns * 1e-6);
    for (size_t i = 0; i < json_array_size(constant); i++)
        (void)printf("input '%s' has the same element everywhere in all samples: other inputs may have larger errors\n",
                     json_string_value(json_array_get(constant, i)));
    if (limited && errors.table.count > 0)
        print_choice(&errors, how.limit);
done:
    json_decref(constant);
    node_errors_deinit(&errors);
    dataset_close(set);
    inlay_session_destroy(session);
    return status;
}
