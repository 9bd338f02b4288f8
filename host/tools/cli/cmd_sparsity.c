/* inlay sparsity: counts the zeros in the weights of a model, and their patterns. */
#include "cli/cli.h"
#include "model/model.h"
#include "modelkit/sparsity.h"
#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Shows how many weights of MODEL are zero, and in which patterns: 2:4, rows (filters), columns, blocks of 4 x 4.\v"
    "A kernel can use a pattern if all groups have it: 100 % of 2:4, or many zero rows. Small weights are those below "
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

static json_t *one_json(const struct sparsity *sparsity)
{
    const inlay_value_info *info = &sparsity->graph->values[sparsity->value].info;
    json_t *shape = json_array();

    for (uint32_t i = 0; i < info->rank; i++)
        (void)json_array_append_new(shape, json_integer(info->dims[i].value));
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:f}", "name", name_of(sparsity), "graph",
                     sparsity->graph->name, "type", inlay_dtype_name(info->dtype), "shape", shape, "elements",
                     (json_int_t)sparsity->elements, "bytes", (json_int_t)sparsity->bytes, "zeros",
                     (json_int_t)sparsity->zeros, "small", share(sparsity->small, sparsity->elements), "two_of_four",
                     share(sparsity->groups_2_4, sparsity->groups), "zero_rows", (json_int_t)sparsity->zero_rows,
                     "zero_columns", (json_int_t)sparsity->zero_columns, "zero_blocks",
                     share(sparsity->zero_blocks, sparsity->blocks));
}

static json_t *make_json(const sparsity_args *args, const struct sparsities *all, uint32_t shown,
                         const struct sparsity *sum)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < shown; i++)
        (void)json_array_append_new(list, one_json(&all->list[i]));
    return json_pack("{s:s, s:i, s:I, s:I, s:f, s:I, s:o}", "model", args->model, "tensors", (int)all->count,
                     "elements", (json_int_t)sum->elements, "zeros", (json_int_t)sum->zeros, "share",
                     share(sum->zeros, sum->elements), "bytes", (json_int_t)sum->bytes, "list", list);
}

static void print_text(const struct sparsities *all, uint32_t shown, const struct sparsity *sum)
{
    int width = 6;

    for (uint32_t i = 0; i < shown; i++) {
        const int bytes = (int)strlen(name_of(&all->list[i]));

        width = bytes > width ? bytes : width;
    }
    (void)printf("%-*s %12s %8s %8s %8s %12s %12s %8s\n", width, "tensor", "elements", "zeros", "small", "2:4",
                 "rows of 0", "columns of 0", "4x4");
    for (uint32_t i = 0; i < shown; i++) {
        const struct sparsity *sparsity = &all->list[i];
        char rows[32], columns[32];

        (void)snprintf(rows, sizeof rows, "%llu/%llu", (unsigned long long)sparsity->zero_rows,
                       (unsigned long long)sparsity->rows);
        (void)snprintf(columns, sizeof columns, "%llu/%llu", (unsigned long long)sparsity->zero_columns,
                       (unsigned long long)sparsity->columns);
        (void)printf("%-*s %12llu %7.2f%% %7.2f%% %7.1f%% %12s %12s %7.1f%%\n", width, name_of(sparsity),
                     (unsigned long long)sparsity->elements, 100 * share(sparsity->zeros, sparsity->elements),
                     100 * share(sparsity->small, sparsity->elements),
                     100 * share(sparsity->groups_2_4, sparsity->groups), rows, columns,
                     100 * share(sparsity->zero_blocks, sparsity->blocks));
    }
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
    uint32_t shown;
    int code = CLI_OK;

    cli_parse(&verb, false, argc, argv, &common, &args);
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
    shown = args.top < all.count ? args.top : all.count;
    if (common.json)
        code = cli_print_json(&common, make_json(&args, &all, shown, &sum), CLI_OK);
    else
        print_text(&all, shown, &sum);
done:
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    arena_deinit(&all.arena);
    graph_model_destroy(model);
    cli_common_deinit(&common);
    return code;
}
