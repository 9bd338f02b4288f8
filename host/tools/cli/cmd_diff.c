/* inlay diff: shows the differences between two model files. */
#include "cli/cli.h"
#include "cli/graph_page.h"
#include "shared/terminal.h"
#include "data/value.h"
#include "model/model.h"
#include "modelkit/diff.h"
#include "report/page.h"
#include "inlay/check.h"
#include <string.h>
#include <unistd.h>

static const char doc_diff[] =
    "Shows the differences between the models A and B: opsets, metadata, inputs, outputs, initializers, nodes with "
    "their attributes, bodies, functions.\v"
    "Lines are shown as by git diff: - is only in A, + is only in B. A tensor of more than 8 elements is shown by a "
    "hash; tensors with the same name and shape in both models are compared element by element below. Exit code 0: no "
    "differences; 1: differences; others as for all verbs. The page of --html shows both graphs next to each other: a "
    "node is compared with the one that computes a value of the same name.\n\n"
    "Examples:\n"
    "  inlay diff model.onnx optimized.onnx\n"
    "  inlay diff a.onnx b.onnx --context 0\n"
    "  inlay diff a.onnx b.onnx --html diff.html\n"
    "  inlay diff a.onnx b.onnx --json | jq '.weights[].name'\n";

typedef struct diff_args {
    const char *models[2];
    uint32_t context;
    bool color;
    const char *html;
} diff_args;

static error_t take_color(const cli_option *option, void *field, char *arg, struct argp_state *state)
{
    bool *color = field;

    (void)option;
    if (strcmp(arg, "auto") != 0 && strcmp(arg, "always") != 0 && strcmp(arg, "never") != 0)
        cli_refuse(state, CLI_USAGE, "--color %s: expected auto, always or never", arg);
    *color = strcmp(arg, "always") == 0 || (*color && strcmp(arg, "never") != 0);
    return 0;
}

static const cli_option options_of_diff[] = {
    { "context", "N", "Show N equal lines around each difference (default: 3)",
      CLI_NUMBER(diff_args, context, 0, 1000) },
    { "color", "WHEN", "auto, always or never (default: auto, on a terminal)", CLI_CALL(take_color, diff_args, color) },
    { "html", "FILE", "Write an HTML page with both graphs to FILE\v(- is standard output)",
      CLI_WRITE(diff_args, html) },
    CLI_TWO_MODELS(diff_args, models),
    { 0 },
};

static void print_line(const diff_args *args, const diff_line *line)
{
    static const char marks[] = { ' ', '-', '+' }, *const colors[] = { "", "\033[31m", "\033[32m" };

    (void)printf("%s%c %s%s\n", args->color ? colors[line->side] : "", marks[line->side], line->text,
                 args->color && line->side != DIFF_BOTH ? "\033[m" : "");
}

/* Is line i within `context` lines of one that differs? */
static bool is_near(const diff_part *part, uint32_t i, uint32_t context)
{
    INLAY_CHECK(i < part->count);
    const uint32_t from = i > context ? i - context : 0;
    const uint32_t to = part->count - i > context + 1 ? i + context + 1 : part->count;

    for (uint32_t k = from; k < to; k++)
        if (part->lines[k].side != DIFF_BOTH)
            return true;
    return false;
}

static void print_part(const diff_args *args, const diff_part *part)
{
    bool open = false;

    for (uint32_t i = 0; i < part->count; i++) {
        const bool shown = part->lines[i].side != DIFF_BOTH || is_near(part, i, args->context);

        if (shown && !open)
            (void)printf("%s@@ %s, line %u @@%s\n", args->color ? "\033[36m" : "", part->title, i + 1,
                         args->color ? "\033[m" : "");
        if (shown)
            print_line(args, &part->lines[i]);
        open = shown;
    }
}

static void print_text(const diff_args *args, const struct diff *diff)
{
    if (diff->changed > 0)
        (void)printf("--- %s\n+++ %s\n", args->models[0], args->models[1]);
    for (uint32_t i = 0; i < diff->part_count; i++)
        if (diff->parts[i].changed > 0)
            print_part(args, &diff->parts[i]);
    if (diff->weight_count > 0)
        (void)printf("@@ weights @@\n");
    for (uint32_t i = 0; i < diff->weight_count; i++) {
        const diff_weight *weight = &diff->weights[i];

        (void)printf("~ %s: %lld of %lld elements differ, by at most %.4g, %.3g relative\n", weight->name,
                     (long long)weight->differing, (long long)weight->elements, weight->largest, weight->relative);
    }
}

static json_t *make_json(const diff_args *args, const struct diff *diff)
{
    json_t *changes = json_array(), *weights = json_array();

    for (uint32_t i = 0; i < diff->part_count; i++)
        for (uint32_t k = 0; k < diff->parts[i].count; k++)
            if (diff->parts[i].lines[k].side != DIFF_BOTH)
                (void)json_array_append_new(changes, json_pack("{s:s, s:s, s:s}", "in", diff->parts[i].title, "side",
                                                               diff->parts[i].lines[k].side == DIFF_A ? "a" : "b",
                                                               "text", diff->parts[i].lines[k].text));
    for (uint32_t i = 0; i < diff->weight_count; i++) {
        const diff_weight *weight = &diff->weights[i];

        (void)json_array_append_new(
            weights, json_pack("{s:s, s:I, s:I, s:o, s:o}", "name", weight->name, "elements",
                               (json_int_t)weight->elements, "differing", (json_int_t)weight->differing, "largest",
                               value_number_json(weight->largest), "relative", value_number_json(weight->relative)));
    }
    return json_pack("{s:s, s:s, s:b, s:o, s:o}", "a", cli_text(args->models[0]), "b", cli_text(args->models[1]),
                     "equal", diff->changed == 0, "changes", changes, "weights", weights);
}

static inlay_status write_page(const cli_common *common, const diff_args *args, graph_model *const models[2],
                               inlay_diag *diag)
{
    json_t *sides[2] = { NULL, NULL }, *json;
    inlay_status status;

    for (int k = 0; k < 2; k++)
        INLAY_TRY(graph_page_json(common, args->models[k], models[k], &sides[k], diag));
    json = json_pack("{s:O, s:O}", "a", sides[0], "b", sides[1]);
    status =
        json != NULL ? page_script_write(&page_diff, json, args->html, diag) : no_memory(diag, "to draw the models");
    json_decref(json);
done:
    json_decref(sides[0]);
    json_decref(sides[1]);
    return status;
}

int cmd_diff(int argc, char **argv)
{
    static const cli_verb verb = { "A B", doc_diff, options_of_diff, NULL };
    diff_args args = { .context = 3, .color = terminal_has_colours(STDOUT_FILENO) };
    graph_model *models[2] = { NULL, NULL };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct diff diff = { .part_count = 0 };
    inlay_status status = INLAY_OK;
    int code;

    cli_parse(&verb, CLI_SETTINGS_NONE, argc, argv, &common, &args);
    for (int k = 0; k < 2; k++)
        INLAY_TRY(model_load_path(args.models[k], NULL, &models[k], &diag));
    (void)cli_progress(NULL, 0.5, "comparing");
    INLAY_TRY(diff_models(models[0], models[1], &diff, &diag));
    cli_progress_clear();
    if (cli_cancelled())
        status = inlay_fail(&diag, INLAY_CANCELLED, "stopped");
    else if (args.html != NULL)
        status = write_page(&common, &args, models, &diag);
done:
    code = status != INLAY_OK ? cli_fail(&common, &diag) : diff.changed > 0 ? CLI_FAILED : CLI_OK;
    if (status == INLAY_OK && common.json)
        code = cli_print_json(&common, make_json(&args, &diff), code);
    else if (status == INLAY_OK)
        print_text(&args, &diff);
    diff_deinit(&diff);
    for (int k = 0; k < 2; k++)
        graph_model_destroy(models[k]);
    cli_common_deinit(&common);
    return code;
}
