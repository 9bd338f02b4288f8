/* inlay bisect: finds the optimiser rewrite, the region or the node that makes a result differ. */
#include "cli/bisect.h"
#include "cli/inputs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char doc_bisect[] =
    "Finds the first step whose result differs: runs MODEL with the given options and once more with --against, on the "
    "same inputs. If outputs differ beyond the tolerance, it searches for the optimiser rewrite, or else for the node "
    "or region of a provider (also in bodies of Loop, If and Scan) that causes the difference.\v"
    "--against reference, the default, runs each node of MODEL on the reference provider, without the optimiser (level "
    "0). --against level=0 uses the given providers with the required rewrites of the optimiser only; any other option "
    "is possible. To find a node or region, bisect runs a growing part of the model on its original providers and the "
    "rest on the providers of --against (reference, if it names none). Exit code 0: no difference; 1: a difference, "
    "with its cause.\n\n"
    "Examples:\n"
    "  inlay bisect model.onnx --inputs data\n"
    "  inlay bisect model.onnx --level 0 --inputs data --rtol 1e-4\n"
    "  inlay bisect model.onnx --against level=0\n"
    "  inlay bisect model.onnx --against no_pass=gelu";

static const cli_option options_of_bisect[] = {
    { "against", "WHAT", "reference, or an option as NAME=VALUE such as level=0 (default: reference)",
      CLI_TEXT(bisect_args, against) },
    { "rtol", "X", "Relative tolerance (default: 1e-3)", CLI_NUMBER(bisect_args, rtol, 0, 1e9) },
    { "atol", "X", "Absolute tolerance (default: 1e-4)", CLI_NUMBER(bisect_args, atol, 0, 1e9) },
    FEED_OPTIONS(bisect_args, feed),
    CLI_MODEL(bisect_args, model),
    { 0 },
};

/* The settings of --against. */
struct against {
    struct setting list[2];
    uint32_t count;
};

/* The optimiser's report on one rewrite. */
typedef struct found_rewrite {
    uint64_t number; /* from 1; 0: none */
    uint64_t last;   /* number of rewrites of the run */
    char pass[64];
    char text[600];
} found_rewrite;

static void on_event(void *user, const inlay_optimize_event *event)
{
    found_rewrite *rewrite = user;
    size_t used = strlen(rewrite->text);

    if (event->node == NULL)
        return;
    rewrite->last = event->rewrite > rewrite->last ? event->rewrite : rewrite->last;
    if (event->rewrite != rewrite->number)
        return;
    (void)snprintf(rewrite->pass, sizeof rewrite->pass, "%s", event->pass);
    (void)snprintf(rewrite->text + used, sizeof rewrite->text - used, "%s%s: %s", used > 0 ? "; " : "", event->node,
                   event->text);
}

/* Runs the optimiser and records rewrite `number` (0 = none); rewrite->last is the number of rewrites. */
static inlay_status follow(const struct search *search, uint64_t number, found_rewrite *rewrite, inlay_diag *diag)
{
    inlay_optimize_args work = { .struct_size = sizeof work, .event = on_event, .user = rewrite };
    inlay_options *options = NULL;
    inlay_status status = trial_options(search, NULL, 0, &options, diag);

    *rewrite = (found_rewrite){ .number = number };
    if (status == INLAY_OK)
        status = inlay_optimize(search->args->model, options, &work, diag);
    inlay_options_destroy(options);
    return status;
}

/* Finds the first rewrite with a bad result: after `low` rewrites the result is good, after all of them it is bad. */
static inlay_status find_rewrite(struct search *search, const struct trial *good, uint64_t low, found_rewrite *out,
                                 struct difference *found, inlay_diag *diag)
{
    uint64_t high;
    inlay_status status = INLAY_OK;

    INLAY_TRY(follow(search, 0, out, diag));
    high = out->last;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        char number[32];
        struct difference difference;

        (void)snprintf(number, sizeof number, "%llu", (unsigned long long)middle);
        INLAY_TRY(trial_differs(search, &(struct setting){ "rewrite_limit", number }, 1, good, &difference, diag));
        if (difference.found) {
            high = middle;
            *found = difference;
        } else {
            low = middle;
        }
    }
    INLAY_TRY(follow(search, high, out, diag));
done:
    return status;
}

struct verdict {
    const char *stage; /* "none", "pass", "region", "node", "nodes", "rounding" */
    struct difference difference;
    found_rewrite rewrite; /* number 0: none */
    struct place place;
    char producer[400];
    uint32_t runs;
};

/* "Softmax '/att/Softmax' on openblas": the node that produces the value. */
static void find_producer(const inlay_session *session, const char *value, char *text, size_t bytes)
{
    const struct program *program = session->main;

    for (uint32_t i = 0; i < program->step_count; i++) {
        const partition_region *region = program->steps[i].region;
        for (uint32_t k = 0; k < region->output_count; k++) {
            const graph_value *output = &program->graph->values[region->outputs[k]];
            const inlay_node_info *node;

            if (strcmp(output->info.name.data, value) != 0 || output->info.producer == INLAY_NONE)
                continue;
            node = &program->graph->nodes[output->info.producer]->info;
            (void)snprintf(text, bytes, "%s '%s' on %s", node->op_type.data, node->name.data,
                           program->steps[i].provider != NULL ? program->steps[i].provider->name : "the host");
        }
    }
}

/* The providers to compare nodes against: those of --against, if it names providers. */
static const char *base_providers(const struct against *against)
{
    return strcmp(against->list[0].name, "providers") == 0 ? against->list[0].value : "reference";
}

/* Searches for nodes of providers, with the optimiser stopped after `limit` rewrites (negative: no limit). */
static inlay_status judge_place(struct search *search, const struct against *against, int64_t limit,
                                const struct trial *good, struct verdict *out, bool *out_base_differs, inlay_diag *diag)
{
    inlay_status status = place_find(search, base_providers(against), limit, good, &out->place, out_base_differs, diag);

    if (status == INLAY_OK && out->place.found) {
        out->difference = out->place.difference;
        out->stage = json_array_size(out->place.nodes) == 1 ? "node" : out->place.one_region ? "region" : "nodes";
    }
    return status;
}

/* Finds the first value of the main graph that differs, in runs without the optimiser. Used if base providers give no
 * answer. */
static inlay_status judge_values(struct search *search, const struct against *against, struct verdict *out,
                                 inlay_diag *diag)
{
    const struct setting both[] = { against->list[0], { "level", "0" }, { "tap", "*" } };
    struct trial good = { 0 }, mine = { 0 };
    struct difference difference;
    uint32_t own_outputs;
    inlay_status status = INLAY_OK;

    INLAY_TRY(trial_run(search, both + 1, 1, &mine, diag));
    own_outputs = inlay_session_output_count(mine.session);
    trial_end(&mine);
    INLAY_TRY(trial_run(search, both, 3, &good, diag));
    INLAY_TRY(trial_run(search, both + 1, 2, &mine, diag));
    INLAY_TRY(
        trial_compare(search, &mine, &good, own_outputs, &difference, diag)); /* the taps, in the order of the run */
    out->stage = difference.found ? "node" : "rounding";
    if (difference.found) {
        out->difference = difference;
        find_producer(mine.session, difference.output, out->producer, sizeof out->producer);
    }
done:
    trial_end(&mine);
    trial_end(&good);
    return status;
}

static inlay_status judge(struct search *search, const struct against *against, struct verdict *out, inlay_diag *diag)
{
    struct trial good = { 0 }, mine = { 0 };
    struct difference plain = { 0 };
    int64_t shared;
    char number[32];
    bool base_differs = true;
    inlay_status status = INLAY_OK;

    out->stage = "none";
    INLAY_TRY(trial_run(search, against->list, against->count, &good, diag));
    INLAY_TRY(trial_run(search, NULL, 0, &mine, diag));
    INLAY_TRY(trial_compare(search, &mine, &good, 0, &out->difference, diag));
    if (!out->difference.found)
        goto done;
    /* The first rewrites are lowerings, before all levels of the optimiser. If both runs made the same number of
     * lowerings, the search begins after these. */
    shared = mine.session->loading.lowerings == good.session->loading.lowerings ? mine.session->loading.lowerings : 0;
    trial_end(&mine);
    (void)snprintf(number, sizeof number, "%lld", (long long)shared);
    INLAY_TRY(trial_differs(search, &(struct setting){ "rewrite_limit", number }, 1, &good, &plain, diag));
    if (!plain.found) {
        INLAY_TRY(find_rewrite(search, &good, (uint64_t)shared, &out->rewrite, &out->difference, diag));
        shared = (int64_t)out->rewrite.number;
    } else {
        out->difference = plain;
    }
    /* The rewrite may be right and a provider's kernel for the new node wrong. The result is then right if other
     * providers run the node. */
    INLAY_TRY(judge_place(search, against, shared, &good, out, &base_differs, diag));
    if (out->place.found)
        goto done;
    if (!plain.found)
        out->stage = "pass";
    else
        INLAY_TRY(judge_values(search, against, out, diag));
done:
    trial_end(&mine);
    trial_end(&good);
    return status;
}

static void print_nodes(const struct verdict *verdict)
{
    const json_t *node;
    size_t i, count = json_array_size(verdict->place.nodes);

    if (verdict->producer[0] != '\0') {
        (void)printf("  computed by %s\n", verdict->producer);
        return;
    }
    (void)printf("  computed by ");
    if (strcmp(verdict->stage, "region") == 0)
        (void)printf("%zu nodes of one region, wrong only together: ", count);
    else if (count > 1)
        (void)printf("%zu nodes together: ", count);
    json_array_foreach(verdict->place.nodes, i, node)
        (void)printf("%s%s '%s'", i > 0 ? ", " : "", json_string_value(json_object_get(node, "op")),
                     json_string_value(json_object_get(node, "name")));
    (void)printf(" on %s", verdict->place.provider);
    if (verdict->place.graph[0] != '\0')
        (void)printf(", in the body %s", verdict->place.graph);
    (void)printf("\n");
    if (verdict->rewrite.number > 0)
        (void)printf("  since rewrite %llu, pass %s: %s\n", (unsigned long long)verdict->rewrite.number,
                     verdict->rewrite.pass, verdict->rewrite.text);
}

static void print_verdict(const struct verdict *verdict)
{
    if (strcmp(verdict->stage, "none") == 0) {
        (void)printf("no difference\n");
    } else if (strcmp(verdict->stage, "pass") == 0) {
        (void)printf("output '%s' differs: %s\nfirst bad rewrite: %llu, pass %s\n  %s\n", verdict->difference.output,
                     verdict->difference.text, (unsigned long long)verdict->rewrite.number, verdict->rewrite.pass,
                     verdict->rewrite.text);
    } else if (strcmp(verdict->stage, "rounding") == 0) {
        (void)printf(
            "output '%s' differs: %s\nwithout the optimiser, no value of a node differs: small differences add up\n",
            verdict->difference.output, verdict->difference.text);
    } else {
        (void)printf("value '%s' is the first that differs: %s\n", verdict->difference.output,
                     verdict->difference.text);
        print_nodes(verdict);
    }
}

static json_t *verdict_json(const struct verdict *verdict)
{
    bool placed = verdict->place.found, rewritten = verdict->rewrite.number > 0;
    const char *text = verdict->rewrite.text[0] != '\0' ? verdict->rewrite.text
                       : verdict->producer[0] != '\0'   ? verdict->producer
                                                        : NULL;

    return json_pack("{s:s, s:s?, s:s?, s:s?, s:I, s:s?, s:s?, s:s?, s:O?, s:I}", "stage", verdict->stage, "value",
                     verdict->difference.found ? verdict->difference.output : NULL, "difference",
                     verdict->difference.found ? verdict->difference.text : NULL, "pass",
                     rewritten ? verdict->rewrite.pass : NULL, "rewrite", (json_int_t)verdict->rewrite.number, "text",
                     text, "provider", placed ? verdict->place.provider : NULL, "graph",
                     placed ? verdict->place.graph : NULL, "nodes", verdict->place.nodes, "runs",
                     (json_int_t)verdict->runs);
}

/* Parses "reference", "level=0" or "level 0". False: the text is none of these. */
static bool read_against(const char *text, char *name, size_t bytes, struct against *out)
{
    size_t length = strcspn(text, "= ");

    if (strcmp(text, "reference") == 0) {
        *out = (struct against){ .list = { { "providers", "reference" }, { "level", "0" } }, .count = 2 };
        return true;
    }
    if (text[length] == '\0' || length == 0 || length >= bytes)
        return false;
    memcpy(name, text, length);
    name[length] = '\0';
    *out = (struct against){ .list = { { name, text + length + 1 } }, .count = 1 };
    return true;
}

int cmd_bisect(int argc, char **argv)
{
    static const cli_verb verb = { "MODEL", doc_bisect, options_of_bisect, NULL };
    bisect_args args = { .against = "reference", .rtol = 1e-3, .atol = 1e-4 };
    cli_common common;
    struct search search = { .common = &common, .args = &args };
    inlay_diag diag = INLAY_DIAG_INIT;
    char name[64], text[sizeof diag.text];
    struct against against;
    struct verdict verdict = { 0 };
    inlay_status status = INLAY_OK;
    int code = CLI_OK;

    cli_parse(&verb, CLI_SETTINGS_SESSION, argc, argv, &common, &args);
    common.many_sessions = true;
    if (!read_against(args.against, name, sizeof name, &against))
        status = inlay_fail(&diag, INLAY_INVALID_ARGUMENT,
                            "--against %s: expected reference, or NAME=VALUE such as level=0", args.against);
    if (status == INLAY_OK && inlay_options_get(common.options, against.list[0].name, NULL, 0, NULL, &diag) != INLAY_OK)
        status = inlay_fail(&diag, INLAY_INVALID_ARGUMENT, "--against: %s", strcpy(text, diag.text));
    if (status == INLAY_OK)
        status = judge(&search, &against, &verdict, &diag);
    cli_progress_clear();
    verdict.runs = search.runs;
    if (status != INLAY_OK)
        code = cli_fail(&common, &diag);
    else
        code = verdict.difference.found ? CLI_FAILED : CLI_OK;
    if (status == INLAY_OK && common.json)
        code = cli_print_json(&common, verdict_json(&verdict), code);
    else if (status == INLAY_OK)
        print_verdict(&verdict);
    place_deinit(&verdict.place);
    feed_deinit(&args.feed);
    cli_common_deinit(&common);
    return code;
}
