#include "session/error_table.h"
#include "base/memory.h"
#include "base/output.h"
#include "config/checks.h"
#include "config/options.h"
#include "inlay/check.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT = 1 };

static inlay_status read_row(const char *path, const json_t *json, struct arena *arena, error_row *out,
                             inlay_diag *diag)
{
    const char *node = json_string_value(json_object_get(json, "node")),
               *arithmetic = json_string_value(json_object_get(json, "arithmetic")),
               *weights = json_string_value(json_object_get(json, "weights"));
    const json_t *error = json_object_get(json, "error"), *saved = json_object_get(json, "saved_ns");

    *out = (error_row){ .node = arena_string(arena, node != NULL ? node : ""),
                        .arithmetic =
                            arithmetic != NULL ? reduced_arithmetic_find(arithmetic) : (uint32_t)REDUCED_ARITHMETICS,
                        .weights = weights != NULL ? strtoull(weights, NULL, 16) : 0,
                        .error = json_is_number(error) ? json_number_value(error) : (double)INFINITY,
                        .saved_ns = json_number_value(saved) };
    if (out->node == NULL)
        return no_memory(diag, "for a table of errors");
    if (node == NULL || out->arithmetic == REDUCED_ARITHMETICS || out->weights == 0 || out->error < 0 ||
        (!json_is_number(error) && !json_is_null(error)) || !json_is_number(saved))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "%.300s: a row of the table of errors needs 'node', 'arithmetic', 'weights', 'error' and "
                          "'saved_ns'",
                          path);
    return INLAY_OK;
}

/* Reads the file. Memory is the arena's. */
static inlay_status error_table_read(const char *path, struct arena *arena, error_table *out, inlay_diag *diag)
{
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    const json_t *list = json_object_get(root, "rows");
    const json_int_t samples = json_integer_value(json_object_get(root, "samples"));
    inlay_status status = INLAY_OK;

    *out = (error_table){ .rows = arena_array(arena, json_array_size(list) + 1, sizeof *out->rows),
                          .count = (uint32_t)json_array_size(list),
                          .samples = (uint32_t)samples,
                          .run_ns = json_number_value(json_object_get(root, "run_ns")) };
    if (root == NULL)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "option error_table: %.300s:%d: %.200s", path, error.line,
                            error.text);
    else if (json_integer_value(json_object_get(root, "inlay_errors")) != FORMAT || !json_is_array(list) ||
             samples < 1 || samples > UINT32_MAX)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                            "option error_table: %.300s is not a file of `inlay explain --errors --save`, format %d",
                            path, (int)FORMAT);
    else if (out->rows == NULL)
        status = no_memory(diag, "for a table of errors");
    for (uint32_t i = 0; i < out->count && status == INLAY_OK; i++)
        status = read_row(path, json_array_get(list, i), arena, &out->rows[i], diag);
    json_decref(root);
    return status;
}

static json_t *row_json(const error_row *row)
{
    char weights[20];

    (void)snprintf(weights, sizeof weights, "%016" PRIx64, row->weights);
    return json_pack("{s:s, s:s, s:s, s:o, s:f}", "node", row->node, "arithmetic", reduced_arithmetics[row->arithmetic],
                     "weights", weights, "error", isfinite(row->error) ? json_real(row->error) : json_null(),
                     "saved_ns", row->saved_ns);
}

inlay_status error_table_write(const char *path, const error_table *table, inlay_diag *diag)
{
    json_t *list = json_array(), *root;
    output_file file;
    inlay_status status = INLAY_OK;
    bool good = list != NULL;

    for (uint32_t i = 0; i < table->count && good; i++)
        good = json_array_append_new(list, row_json(&table->rows[i])) == 0;
    root = good ? json_pack("{s:i, s:i, s:f, s:O}", "inlay_errors", FORMAT, "samples", (int)table->samples, "run_ns",
                            table->run_ns, "rows", list)
                : NULL;
    if (root == NULL)
        status = no_memory(diag, "for a table of errors");
    else
        status = output_open_stream(&file, path, diag);
    if (status == INLAY_OK) {
        (void)json_dumpf(root, file.to, JSON_INDENT(1) | JSON_REAL_PRECISION(9)); /* output_commit() reports errors */
        (void)fputc('\n', file.to);
        status = output_commit(&file, NULL, diag);
    }
    json_decref(root);
    json_decref(list);
    return status;
}

/* Nanoseconds that the row saves for each unit of error. */
static double worth(const error_row *row)
{
    return row->saved_ns / fmax(row->error, 1e-30);
}

double error_table_margin(uint32_t samples)
{
    return fmax(log(ERROR_TABLE_INPUTS) / log(1 + (double)samples), 1);
}

static bool is_possible(const error_table *table, uint32_t i, double left)
{
    const error_row *row = &table->rows[i];

    if (row->chosen || !(row->saved_ns > 0) || !(row->error * error_table_margin(table->samples) <= left))
        return false;
    for (uint32_t k = 0; k < table->count; k++)
        if (table->rows[k].chosen && strcmp(table->rows[k].node, row->node) == 0)
            return false;
    return true;
}

double error_table_choose(error_table *table, double limit)
{
    double sum = 0;

    for (uint32_t i = 0; i < table->count; i++)
        table->rows[i].chosen = false;
    for (;;) {
        uint32_t best = table->count;

        for (uint32_t i = 0; i < table->count; i++)
            if (is_possible(table, i, limit - sum) &&
                (best == table->count || worth(&table->rows[i]) > worth(&table->rows[best])))
                best = i;
        if (best == table->count)
            return sum;
        table->rows[best].chosen = true;
        sum += table->rows[best].error * error_table_margin(table->samples);
    }
}

/* Appends the items of option reduce. */
static inlay_status read_items(const inlay_options *options, pass_ctx *passes)
{
    struct arena *arena = &passes->model->arena;
    const char *text;

    for (uint32_t i = 0; (text = options_list(options, OPTION_reduce, i)) != NULL; i++) {
        const char *equals = strrchr(text, '=');
        pass_reduction *item;

        INLAY_CHECK(equals != NULL); /* option_check() */
        if (!ARENA_GROW(arena, passes->options.reductions, passes->options.reduction_count))
            return no_memory(passes->diag, "for option reduce");
        item = &passes->options.reductions[passes->options.reduction_count++];
        *item = (pass_reduction){ .pattern = arena_string_n(arena, text, (size_t)(equals - text)),
                                  .arithmetic = reduced_arithmetic_find(equals + 1) };
        INLAY_CHECK(item->arithmetic < REDUCED_ARITHMETICS);
        if (item->pattern == NULL)
            return no_memory(passes->diag, "for option reduce");
    }
    return INLAY_OK;
}

inlay_status session_read_reductions(const inlay_options *options, pass_ctx *passes)
{
    const char *path = options_text(options, OPTION_error_table);
    struct arena *arena = &passes->model->arena;
    double limit = 0;
    error_table table;
    inlay_status status;

    INLAY_TRY(read_items(options, passes));
    (void)option_limit(options_text(options, OPTION_max_error), &limit);
    if (limit == 0)
        goto done;
    if (path[0] == '\0') {
        status = inlay_fail(passes->diag, INLAY_INVALID_ARGUMENT,
                            "option max_error needs option error_table: a file that `inlay explain MODEL --errors "
                            "--data SAMPLES --save FILE` writes");
        goto done;
    }
    INLAY_TRY(error_table_read(path, arena, &table, passes->diag));
    (void)error_table_choose(&table, limit);
    for (uint32_t i = 0; i < table.count; i++) {
        const error_row *row = &table.rows[i];

        if (!row->chosen)
            continue;
        if (!ARENA_GROW(arena, passes->options.reductions, passes->options.reduction_count)) {
            status = no_memory(passes->diag, "for option max_error");
            goto done;
        }
        passes->options.reductions[passes->options.reduction_count++] = (pass_reduction){
            .pattern = row->node, .is_name = true, .arithmetic = row->arithmetic, .weights = row->weights
        };
    }
done:
    return status;
}

inlay_status session_check_reductions(const pass_reduction *list, uint32_t count, inlay_diag *diag)
{
    for (uint32_t i = 0; i < count; i++)
        if (!list[i].used)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                              "option %s: no MatMul, Gemm or Conv of the main graph with constant weights of finite "
                              "floats has the arithmetic and matches '%.200s'",
                              list[i].is_name ? "error_table" : "reduce", list[i].pattern);
    return INLAY_OK;
}
