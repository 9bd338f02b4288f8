/* inlay sparsity: counts the zeros in the weights of a model, and their patterns. */
#include "cli/cells.h"
#include "cli/cli.h"
#include "model/model.h"
#include "modelkit/sparsity.h"
#include <stdlib.h>

static const char doc[] =
    "Shows how many weights of MODEL are zero, and in which patterns: 2:4, rows (filters), columns, blocks of 4 x 4.\v"
    "A device can use 2:4 if all groups have it (100 %), and zero rows if there are many. Small weights are those "
    "below "
    "1 % of the root mean square of their tensor. Tensors are listed by decreasing size; --least omits small ones.\n\n"
    "Examples:\n"
    "  inlay sparsity model.onnx\n"
    "  inlay sparsity model.onnx --least 100000 --top 10\n"
    "  inlay sparsity model.onnx --json | jq .zeros\n";

typedef struct sparsity_args {
    const char *model;
    uint64_t least;
    uint32_t top;
} sparsity_args;

static const cli_option own_options[] = {
    { "least", "N", "Omit tensors with fewer than N elements (default: 64)",
      CLI_NUMBER(sparsity_args, least, 0, 1e15) },
    { "top", "N", "List the N largest tensors (default: all)", CLI_NUMBER(sparsity_args, top, 0, UINT32_MAX) },
    CLI_MODEL(sparsity_args, model),
    { 0 },
};

static int by_bytes(const void *a, const void *b)
{
    const struct sparsity *first = a, *second = b;

    if (first->bytes != second->bytes)
        return first->bytes < second->bytes ? 1 : -1;
    return first->graph != second->graph  ? (first->graph < second->graph ? -1 : 1)
           : first->value < second->value ? -1
                                          : first->value > second->value;
}

static const char *name_of(const struct sparsity *sparsity)
{
    return sparsity->graph->values[sparsity->value].info.name.data;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static void add_tensors(struct table *table, const struct sparsities *all, uint32_t shown)
{
    enum { NAME, GRAPH, TYPE, ELEMENTS, BYTES, ZEROS, SMALL, TWO_OF_FOUR, ROWS, LINES, BLOCKS, COLUMNS };
    static const table_column columns[COLUMNS] = {
        [NAME] = { "tensor", "name", TABLE_NAME },
        [GRAPH] = { NULL, "graph", TABLE_NAME },
        [TYPE] = { NULL, "type", TABLE_NAME },
        [ELEMENTS] = { "elements", "elements", TABLE_NUMBER },
        [BYTES] = { NULL, "bytes", TABLE_NUMBER },
        [ZEROS] = { "zeros", "zeros", TABLE_NUMBER },
        [SMALL] = { "small", "small", TABLE_NUMBER },
        [TWO_OF_FOUR] = { "2:4", "two_of_four", TABLE_NUMBER },
        [ROWS] = { "rows of 0", "zero_rows", TABLE_NUMBER },
        [LINES] = { "columns of 0", "zero_columns", TABLE_NUMBER },
        [BLOCKS] = { "4x4", "zero_blocks", TABLE_NUMBER },
    };

    *table = (struct table){ .columns = columns, .column_count = COLUMNS };
    for (uint32_t i = 0; i < shown; i++) {
        const struct sparsity *sparsity = &all->list[i];
        const double small = share(sparsity->small, sparsity->elements);
        const double groups = share(sparsity->groups_2_4, sparsity->groups);
        const double blocks = share(sparsity->zero_blocks, sparsity->blocks);

        table_row(table);
        table_text(table, NAME, name_of(sparsity));
        table_text(table, GRAPH, sparsity->graph->name);
        table_text(table, TYPE, inlay_dtype_name(sparsity->graph->values[sparsity->value].info.dtype));
        table_whole(table, ELEMENTS, (int64_t)sparsity->elements);
        table_whole(table, BYTES, (int64_t)sparsity->bytes);
        table_whole(table, ZEROS, (int64_t)sparsity->zeros);
        table_say(table, ZEROS, "%.2f%%", 100 * share(sparsity->zeros, sparsity->elements));
        table_real(table, SMALL, small, "%.2f%%", 100 * small);
        table_real(table, TWO_OF_FOUR, groups, "%.1f%%", 100 * groups);
        table_whole(table, ROWS, (int64_t)sparsity->zero_rows);
        table_say(table, ROWS, "%llu/%llu", (unsigned long long)sparsity->zero_rows,
                  (unsigned long long)sparsity->rows);
        table_whole(table, LINES, (int64_t)sparsity->zero_columns);
        table_say(table, LINES, "%llu/%llu", (unsigned long long)sparsity->zero_columns,
                  (unsigned long long)sparsity->columns);
        table_real(table, BLOCKS, blocks, "%.1f%%", 100 * blocks);
    }
}

/* The rows with the shapes, which are lists. */
static json_t *tensors_json(struct table *table, const struct sparsities *all)
{
    json_t *list = cells_json(table), *row;
    size_t i;

    json_array_foreach(list, i, row) {
        const inlay_value_info *info = &all->list[i].graph->values[all->list[i].value].info;
        json_t *shape = json_array();

        for (uint32_t d = 0; d < info->rank; d++)
            (void)json_array_append_new(shape, json_integer(info->dims[d].value));
        (void)json_object_set_new(row, "shape", shape);
    }
    return list;
}

static json_t *make_json(const sparsity_args *args, const struct sparsities *all, struct table *table,
                         const struct sparsity *sum)
{
    return json_pack("{s:s, s:i, s:I, s:I, s:f, s:I, s:o}", "model", cli_text(args->model), "tensors", (int)all->count,
                     "elements", (json_int_t)sum->elements, "zeros", (json_int_t)sum->zeros, "share",
                     share(sum->zeros, sum->elements), "bytes", (json_int_t)sum->bytes, "list",
                     tensors_json(table, all));
}

static void print_text(const struct sparsities *all, struct table *table, const struct sparsity *sum)
{
    cells_print(table);
    (void)printf("%llu of %llu weights are 0 (%.2f %%), in %u tensors of %.2f MiB\n", (unsigned long long)sum->zeros,
                 (unsigned long long)sum->elements, 100 * share(sum->zeros, sum->elements), all->count,
                 (double)sum->bytes / 1048576);
}

int cmd_sparsity(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc, own_options, NULL };
    sparsity_args args = { .least = 64, .top = UINT32_MAX };
    struct sparsities all = { .progress = cli_progress };
    struct sparsity sum = { .elements = 0 };
    graph_model *model = NULL;
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status;
    struct table table;
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_NONE, argc, argv, &common, &args);
    all.least = args.least;
    INLAY_TRY(model_load_path(args.model, NULL, &model, &diag));
    INLAY_TRY(sparsity_find(model, &all, &diag));
    cli_progress_clear();
    if (all.count > 0)
        qsort(all.list, all.count, sizeof *all.list, by_bytes);
    for (uint32_t i = 0; i < all.count; i++) {
        sum.elements += all.list[i].elements;
        sum.zeros += all.list[i].zeros;
        sum.bytes += all.list[i].bytes;
    }
    add_tensors(&table, &all, args.top < all.count ? args.top : all.count);
    if (common.json)
        code = cli_print_json(&common, make_json(&args, &all, &table, &sum), CLI_OK);
    else
        print_text(&all, &table, &sum);
done:
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    arena_deinit(&all.arena);
    graph_model_destroy(model);
    cli_common_deinit(&common);
    return code;
}
