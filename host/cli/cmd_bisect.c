/* inlay bisect: which rewrite of the optimiser, or which node, makes a result differ. */
#include "cli/cli.h"
#include "cli/compare.h"
#include "cli/feed.h"
#include "exec/session.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char doc[] =
    "Finds the first step whose result differs: runs MODEL as the options say and once more as --against says, on the "
    "same inputs, and when outputs differ beyond the tolerance, looks for the rewrite of the optimiser, else for the "
    "node, that makes the difference.\v"
    "--against reference takes the reference provider alone; --against level 0, written as --against level=0, takes "
    "another level of the optimiser. Exit code 0: no difference; 1: a difference, which is named.\n\n"
    "Examples:\n"
    "  inlay bisect model.onnx --against reference\n"
    "  inlay bisect model.onnx --against level=0 --inputs data --rtol 1e-4\n";

enum { KEY_AGAINST = 0x4000, KEY_RTOL, KEY_ATOL };
static const struct argp_option flags[] = {
    { "against", KEY_AGAINST, "WHAT", 0, "reference, or an option as NAME=VALUE such as level=0 (default: level=0)",
      0 },
    { "rtol", KEY_RTOL, "X", 0, "Relative tolerance (default: 1e-3)", 0 },
    { "atol", KEY_ATOL, "X", 0, "Absolute tolerance (default: 1e-4)", 0 },
    FEED_FLAGS,
    { 0 },
};

typedef struct bisect_args {
    feed feed;
    const char *model;
    const char *against;
    double rtol, atol;
} bisect_args;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    bisect_args *args = state->input;

    switch (key) {
    case KEY_AGAINST:
        args->against = arg;
        return 0;
    case KEY_RTOL:
        args->rtol = cli_number(state, "--rtol", arg, 0, 1e9);
        return 0;
    case KEY_ATOL:
        args->atol = cli_number(state, "--atol", arg, 0, 1e9);
        return 0;
    case ARGP_KEY_ARG:
    case ARGP_KEY_END:
        return cli_parse_model(key, arg, state, &args->model);
    default:
        return feed_parse(&args->feed, key, arg, state);
    }
}

/* ------------------------------------------------------------------ runs */

/* A setting on top of the common options. */
typedef struct setting {
    const char *name;
    const char *value;
} setting;

/* A session with the settings, and its context after one run. */
typedef struct trial {
    inlay_session *session;
    inlay_context *context;
} trial;

static void trial_end(trial *t)
{
    inlay_context_destroy(t->context);
    inlay_session_destroy(t->session);
    *t = (trial){ 0 };
}

/* Options are the caller's; a trial sets some and puts the old values back. */
static inlay_status swap_settings(inlay_options *options, const setting *list, uint32_t count, char (*old)[256],
                                  inlay_diag *diag)
{
    inlay_status status = INLAY_OK;

    for (uint32_t i = 0; status == INLAY_OK && i < count; i++) {
        status = inlay_options_get(options, list[i].name, old[i], sizeof old[i], diag);
        if (status == INLAY_OK)
            status = inlay_options_set(options, list[i].name, list[i].value, diag);
    }
    return status;
}

enum { MOST_SETTINGS = 4 };

static inlay_status run_trial(cli_common *common, const bisect_args *args, const setting *list, uint32_t count,
                              trial *out, inlay_diag *diag)
{
    char old[MOST_SETTINGS][256];
    inlay_value **inputs = NULL;
    inlay_run_options run = { .struct_size = sizeof run, .cancel = cli_cancel() };
    inlay_status status = INLAY_OK;

    *out = (trial){ 0 };
    INLAY_TRY(swap_settings(common->options, list, count, old, diag));
    status = cli_open(common, args->model, &out->session, diag);
    for (uint32_t i = 0; i < count; i++)
        (void)inlay_options_set(common->options, list[i].name, old[i], NULL); /* it was valid before */
    INLAY_TRY(status);
    INLAY_TRY(feed_make(&args->feed, common, out->session, &inputs, diag));
    INLAY_TRY(inlay_context_create(out->session, &out->context, diag));
    INLAY_TRY(feed_bind(inputs, out->session, out->context, diag));
    INLAY_TRY(inlay_context_run(out->context, &run, diag));
done:
    if (out->session != NULL)
        feed_release(inputs, out->session);
    if (status != INLAY_OK)
        trial_end(out);
    return status;
}

/* ------------------------------------------------------------------ differences */

/* The value as compare_value() wants what is expected; items are allocated, freed with free_datum. */
static bool to_datum(const inlay_value *v, model_datum *out)
{
    *out = (model_datum){ .kind = inlay_value_kind(v), .name = "" };
    if (out->kind == INLAY_KIND_TENSOR) {
        out->tensor = (inlay_tensor_view){ .data = inlay_value_data(v), .bytes = inlay_value_bytes(v),
                                           .dims = inlay_value_dims(v), .rank = inlay_value_rank(v),
                                           .dtype = inlay_value_dtype(v) };
        return true;
    }
    out->item_count = (uint32_t)inlay_value_count(v);
    out->items = calloc((size_t)out->item_count + 1, sizeof *out->items);
    for (uint32_t i = 0; out->items != NULL && i < out->item_count; i++)
        if (!to_datum(inlay_value_item(v, i), &out->items[i]))
            return false;
    return out->items != NULL;
}

static void free_datum(model_datum *d)
{
    for (uint32_t i = 0; d->items != NULL && i < d->item_count; i++)
        free_datum(&d->items[i]);
    free(d->items);
}

/* What differs between two runs. */
typedef struct difference {
    bool found;
    char output[200];
    char text[300];
} difference;

/* The first output of a, from index `first` round to it again, that b has by the same name with another value. */
static inlay_status compare_trials(const bisect_args *args, const trial *a, const trial *b, uint32_t first,
                                   difference *out, inlay_diag *diag)
{
    uint32_t count = inlay_session_output_count(a->session);

    *out = (difference){ 0 };
    for (uint32_t k = 0; k < count && !out->found; k++) {
        uint32_t i = (first + k) % count;
        inlay_io_info info = { .struct_size = sizeof info };
        const inlay_value *got, *want;
        model_datum datum;
        uint32_t at;
        bool complete;

        (void)inlay_session_output(a->session, i, &info);
        at = inlay_session_find_output(b->session, info.name);
        got = inlay_context_output(a->context, i);
        want = at == INLAY_NONE ? NULL : inlay_context_output(b->context, at);
        if (got == NULL || want == NULL)
            continue;
        complete = to_datum(want, &datum);
        if (complete && !compare_value(got, &datum, args->rtol, args->atol, out->text, sizeof out->text)) {
            out->found = true;
            (void)snprintf(out->output, sizeof out->output, "%s", info.name);
        }
        free_datum(&datum);
        if (!complete)
            return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory to compare outputs");
    }
    return INLAY_OK;
}

static inlay_status differs(cli_common *common, const bisect_args *args, const setting *list, uint32_t count,
                            const trial *good, difference *out, inlay_diag *diag)
{
    trial t;
    inlay_status status = run_trial(common, args, list, count, &t, diag);

    if (status == INLAY_OK)
        status = compare_trials(args, &t, good, 0, out, diag);
    trial_end(&t);
    return status;
}

/* ------------------------------------------------------------------ looking for the rewrite */

/* What the optimiser says of one rewrite. */
typedef struct found_rewrite {
    uint64_t number, last;
    char pass[64];
    char text[600];
} found_rewrite;

static void on_event(void *user, const inlay_optimize_event *e)
{
    found_rewrite *f = user;
    size_t used = strlen(f->text);

    if (e->node == NULL)
        return;
    f->last = e->rewrite > f->last ? e->rewrite : f->last;
    if (e->rewrite != f->number)
        return;
    (void)snprintf(f->pass, sizeof f->pass, "%s", e->pass);
    (void)snprintf(f->text + used, sizeof f->text - used, "%s%s: %s", used > 0 ? "; " : "", e->node, e->text);
}

/* Follows the optimiser and hears of rewrite `number` (0 = of none); f->last is how many there are. */
static inlay_status follow(const cli_common *common, const bisect_args *args, uint64_t number, found_rewrite *f,
                           inlay_diag *diag)
{
    inlay_optimize_args work = { .struct_size = sizeof work, .event = on_event, .user = f };

    *f = (found_rewrite){ .number = number };
    return inlay_optimize(args->model, common->options, &work, diag);
}

/* The first rewrite after which the result is bad; between `low` rewrites (good) and all (bad) there is such a step. */
static inlay_status find_rewrite(cli_common *common, const bisect_args *args, const trial *good, uint64_t low,
                                 found_rewrite *out, difference *what, inlay_diag *diag)
{
    uint64_t high;
    inlay_status status = INLAY_OK;

    INLAY_TRY(follow(common, args, 0, out, diag));
    high = out->last;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        char number[32];
        difference d;

        (void)snprintf(number, sizeof number, "%llu", (unsigned long long)middle);
        INLAY_TRY(differs(common, args, &(setting){ "rewrite_limit", number }, 1, good, &d, diag));
        if (d.found) {
            high = middle;
            *what = d;
        } else {
            low = middle;
        }
    }
    INLAY_TRY(follow(common, args, high, out, diag));
done:
    return status;
}

/* ------------------------------------------------------------------ the verdict */

/* "Softmax '/att/Softmax' on openblas", the node that makes the value. */
static void find_maker(const inlay_session *s, const char *value, char *text, size_t bytes)
{
    const program *p = s->main;

    for (uint32_t i = 0; i < p->step_count; i++) {
        const part_region *r = p->steps[i].region;
        for (uint32_t k = 0; k < r->output_count; k++) {
            const graph_value *v = &p->graph->values[r->outputs[k]];
            const inlay_node_info *n;

            if (strcmp(v->info.name.data, value) != 0 || v->info.producer == INLAY_NONE)
                continue;
            n = &p->graph->nodes[v->info.producer]->info;
            (void)snprintf(text, bytes, "%s '%s' on %s", n->op_type.data, n->name.data,
                           p->steps[i].provider != NULL ? p->steps[i].provider->name : "the host");
        }
    }
}

typedef struct verdict {
    const char *stage; /* "none", "rewrite", "node", "rounding" */
    difference what;
    found_rewrite rewrite;
} verdict;

static inlay_status judge(cli_common *common, const bisect_args *args, const setting *against, verdict *out,
                          inlay_diag *diag)
{
    const setting both[] = { *against, { "level", "0" }, { "tap", "*" } };
    trial good = { 0 }, mine = { 0 };
    difference plain = { 0 };
    uint32_t own_outputs;
    uint64_t shared;
    char number[32];
    inlay_status status = INLAY_OK;

    out->stage = "none";
    INLAY_TRY(run_trial(common, args, against, 1, &good, diag));
    INLAY_TRY(run_trial(common, args, NULL, 0, &mine, diag));
    INLAY_TRY(compare_trials(args, &mine, &good, 0, &out->what, diag));
    if (!out->what.found)
        goto done;
    /* What both lower alike is none of the optimiser's levels. */
    shared = mine.session->lowerings == good.session->lowerings ? (uint64_t)mine.session->lowerings : 0;
    trial_end(&mine);
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)shared);
    INLAY_TRY(differs(common, args, &(setting){ "rewrite_limit", number }, 1, &good, &plain, diag));
    if (!plain.found) {
        out->stage = "rewrite";
        INLAY_TRY(find_rewrite(common, args, &good, shared, &out->rewrite, &out->what, diag));
        goto done;
    }
    own_outputs = inlay_session_output_count(good.session);
    trial_end(&good);
    /* Not the optimiser: compare every value that nodes make, without it. */
    INLAY_TRY(run_trial(common, args, both, 3, &good, diag));
    INLAY_TRY(run_trial(common, args, both + 1, 2, &mine, diag));
    INLAY_TRY(compare_trials(args, &mine, &good, own_outputs, &plain, diag)); /* the taps, in the order of the run */
    out->stage = plain.found ? "node" : "rounding";
    if (plain.found)
        out->what = plain;
    if (plain.found)
        find_maker(mine.session, plain.output, out->rewrite.text, sizeof out->rewrite.text);
done:
    trial_end(&mine);
    trial_end(&good);
    return status;
}

static void print_verdict(const verdict *v)
{
    if (strcmp(v->stage, "none") == 0)
        (void)printf("no difference\n");
    else if (strcmp(v->stage, "rewrite") == 0)
        (void)printf("output '%s' differs: %s\nfirst bad rewrite: %llu, pass %s\n  %s\n", v->what.output, v->what.text,
                     (unsigned long long)v->rewrite.number, v->rewrite.pass, v->rewrite.text);
    else if (strcmp(v->stage, "node") == 0)
        (void)printf("value '%s' is the first that differs: %s\n  made by %s\n", v->what.output, v->what.text,
                     v->rewrite.text);
    else
        (void)printf("output '%s' differs: %s\nbut no value of a node does without the optimiser: differences add up\n",
                     v->what.output, v->what.text);
}

static json_t *verdict_json(const verdict *v)
{
    bool rewrite = strcmp(v->stage, "rewrite") == 0;

    return json_pack("{s:s, s:s?, s:s?, s:s?, s:I, s:s?}", "stage", v->stage, "value",
                     v->what.found ? v->what.output : NULL, "difference", v->what.found ? v->what.text : NULL, "pass",
                     rewrite ? v->rewrite.pass : NULL, "rewrite", (json_int_t)v->rewrite.number, "text",
                     v->rewrite.text[0] != '\0' ? v->rewrite.text : NULL);
}

int cmd_bisect(int argc, char **argv)
{
    static const struct argp argp = { flags, parse, "MODEL", doc, NULL, NULL, NULL };
    bisect_args args = { .rtol = 1e-3, .atol = 1e-4, .against = "level=0" };
    cli_common common;
    inlay_diag diag = INLAY_DIAG_INIT;
    char name[64] = "providers";
    setting against = { name, "reference" };
    verdict v = { 0 };
    const char *equals;
    int code = CLI_OK;

    cli_parse(&argp, true, argc, argv, &common, &args);
    equals = strchr(args.against, '=');
    if (equals != NULL && (size_t)(equals - args.against) < sizeof name) {
        memcpy(name, args.against, (size_t)(equals - args.against));
        name[equals - args.against] = '\0';
        against.value = equals + 1;
    } else if (strcmp(args.against, "reference") != 0) {
        (void)inlay_fail(&diag, INLAY_INVALID_ARGUMENT, "--against %s: write reference, or NAME=VALUE such as level=0",
                         args.against);
        code = cli_fail(&common, &diag);
        goto done;
    }
    common.many_sessions = true;
    if (judge(&common, &args, &against, &v, &diag) != INLAY_OK)
        code = cli_fail(&common, &diag);
    else
        code = v.what.found ? CLI_FAILED : CLI_OK;
    if (v.stage != NULL && diag.code == INLAY_OK && common.json)
        code = cli_print_json(&common, verdict_json(&v), code);
    else if (v.stage != NULL && diag.code == INLAY_OK)
        print_verdict(&v);
done:
    feed_deinit(&args.feed);
    cli_common_deinit(&common);
    return code;
}
