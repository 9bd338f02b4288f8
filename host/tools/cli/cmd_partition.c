/* inlay partition: a short table of the assignment of nodes to providers, saved on demand. `inlay explain` shows more.
 */
#include "base/json_text.h"
#include "base/output.h"
#include "base/strbuf.h"
#include "cli/cells.h"
#include "cli/cli.h"
#include "inlay/check.h"
#include <stdio.h>
#include <string.h>

static const char doc_partition[] =
    "Assigns the nodes of MODEL to providers and prints the partitions in execution order. With --save the assignment "
    "is written to a file; a session with --plan FILE uses it and does not compare costs.\v"
    "Examples:\n"
    "  inlay partition model.onnx\n"
    "  inlay partition model.onnx --pin 'op:MatMul=openblas' --max-partitions 3\n"
    "  inlay partition model.onnx --save model.plan && inlay run model.onnx --plan model.plan\n\n"
    "A PATTERN of --pin and --forbid is a glob that matches names of nodes, or op:GLOB for their operators.";

typedef struct partition_args {
    const char *model, *save;
} partition_args;

static const cli_option options_of_partition[] = {
    { "save", "FILE", "Write the assignment to FILE; - is standard output", CLI_WRITE(partition_args, save) },
    CLI_MODEL(partition_args, model),
    { 0 },
};

static inlay_status save(const char *path, const struct strbuf *plan, inlay_diag *diag)
{
    output_file file = { .fd = -1 };
    inlay_status status;

    INLAY_TRY(output_open(&file, path, diag));
    if (output_write(file.fd, plan->data, plan->size))
        status = output_commit(&file, NULL, diag);
    else
        status = output_failed(&file, diag);
done:
    output_drop(&file);
    return status;
}

enum { PART, PROVIDER, NODES, REGIONS, PREDICTED, RANGE, COLUMNS };
static const table_column columns[COLUMNS] = {
    [PART] = { "part", NULL, TABLE_NUMBER },           [PROVIDER] = { "provider", NULL, TABLE_NAME },
    [NODES] = { "nodes", NULL, TABLE_NUMBER },         [REGIONS] = { "regions", NULL, TABLE_NUMBER },
    [PREDICTED] = { "predicted", NULL, TABLE_NUMBER }, [RANGE] = { "from .. to", NULL, TABLE_NAME },
};

/* One row for the consecutive offers [from, to) of one provider. */
static void add_part(struct table *table, const json_t *offers, size_t from, size_t to)
{
    const json_t *first = json_array_get(offers, from), *last = json_array_get(offers, to - 1);
    const json_t *names = json_object_get(last, "nodes");
    const char *begin = "", *end = "";
    unsigned nodes = 0, regions = 0;
    double ns = 0;
    json_int_t region = -1;
    char text[FORMATTED_BYTES];

    INLAY_CHECK(from < to && to <= json_array_size(offers));
    for (size_t i = from; i < to; i++) {
        const json_t *object = json_array_get(offers, i);
        nodes += (unsigned)json_array_size(json_object_get(object, "nodes"));
        ns += json_number_value(json_object_get(object, "ns"));
        regions += json_integer_value(json_object_get(object, "region")) != region;
        region = json_integer_value(json_object_get(object, "region"));
    }
    if (json_array_size(json_object_get(first, "nodes")) > 0)
        begin = json_string_value(json_array_get(json_object_get(first, "nodes"), 0));
    if (json_array_size(names) > 0)
        end = json_string_value(json_array_get(names, json_array_size(names) - 1));
    table_row(table);
    table_whole(table, PART, table->row_count - 1);
    table_text(table, PROVIDER, json_text_of(first, "provider"));
    table_whole(table, NODES, nodes);
    table_whole(table, REGIONS, regions);
    table_say(table, PREDICTED, "%s", format_ns(ns, text));
    table_say(table, RANGE, "%s%s%s", begin, nodes > 1 ? " .. " : "", nodes > 1 ? end : "");
}

static void print_graph(const json_t *graph)
{
    const json_t *offers = json_object_get(graph, "offers");
    size_t count = json_array_size(offers);
    json_int_t parts = json_integer_value(json_object_get(graph, "partitions"));
    json_int_t copies = json_integer_value(json_object_get(graph, "copies"));
    struct table table = { .columns = columns, .column_count = COLUMNS };
    char text[FORMATTED_BYTES];

    (void)printf("%s%s: %" JSON_INTEGER_FORMAT " partition%s, %" JSON_INTEGER_FORMAT " cop%s, predicted %s\n",
                 json_text_of(graph, "graph")[0] != '\0' ? "graph " : "main graph", json_text_of(graph, "graph"), parts,
                 parts == 1 ? "" : "s", copies, copies == 1 ? "y" : "ies",
                 format_ns(json_number_value(json_object_get(graph, "cost_ns")), text));
    for (size_t from = 0, to; from < count; from = to) {
        const json_t *first = json_array_get(offers, from);
        json_int_t region = json_integer_value(json_object_get(first, "region"));

        for (to = from; to < count; to++) {
            const json_t *object = json_array_get(offers, to);
            if (strcmp(json_text_of(object, "provider"), json_text_of(first, "provider")) != 0 ||
                json_integer_value(json_object_get(object, "region")) > region + 1)
                break; /* another provider, or a node that the host runs in between */
            region = json_integer_value(json_object_get(object, "region"));
        }
        add_part(&table, offers, from, to);
    }
    cells_print(&table);
}

static int print_plan(const cli_common *common, const struct strbuf *plan)
{
    json_t *root = json_loadb(plan->data, plan->size, 0, NULL);
    const json_t *graph;
    size_t i;

    if (common->json || root == NULL)
        return cli_print_json(common, root, CLI_OK);
    json_array_foreach(json_object_get(root, "graphs"), i, graph)
        print_graph(graph);
    json_decref(root);
    return CLI_OK;
}

int cmd_partition(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_partition, options_of_partition, NULL };
    partition_args args = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_session *session = NULL;
    cli_common common;
    inlay_status status;
    struct strbuf plan = { 0 };
    int code;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    status = cli_open(&common, args.model, &session, &diag);
    if (status == INLAY_OK)
        status = inlay_session_plan_save(session, strbuf_write, &plan, &diag);
    if (status == INLAY_OK && plan.failed)
        status = no_memory(&diag, "for the plan");
    if (status == INLAY_OK && args.save != NULL)
        status = save(args.save, &plan, &diag);
    code = status == INLAY_OK ? print_plan(&common, &plan) : cli_fail(&common, &diag);
    strbuf_deinit(&plan);
    inlay_session_destroy(session);
    cli_common_deinit(&common);
    return code;
}
